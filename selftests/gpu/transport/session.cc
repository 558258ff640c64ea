// SPDX-License-Identifier: GPL-2.0
#include "transport/session.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace gpu::vfio {
namespace {

// The front of a payload; the command table has checked that it is long enough.
template <typename T>
T front(const Message& message) {
  T value;
  std::memcpy(&value, message.payload.data(), sizeof(T));
  return value;
}

template <typename T>
std::vector<std::byte> bytes_of(const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  return {bytes.begin(), bytes.end()};
}

amdgpu_criu::Error invalid(std::string_view what) {
  return amdgpu_criu::Error::of(EINVAL, "{}", what);
}

amdgpu_criu::Status check_argsz(uint32_t argsz, size_t wanted) {
  if (argsz < wanted) return amdgpu_criu::Error::of(EINVAL, "argsz {} is below {}", argsz, wanted);
  return {};
}

}  // namespace

const Session::Row* Session::find(uint16_t command) {
  constexpr size_t kAny = kMaxMessage;
  static constexpr auto kRows = std::to_array<Row>({
      {Command::kVersion, sizeof(Version), kAny, 0, &Session::version},
      {Command::kDmaMap, sizeof(DmaMap), sizeof(DmaMap), 1, &Session::dma_map},
      {Command::kDmaUnmap, sizeof(DmaUnmap), sizeof(DmaUnmap), 0, &Session::dma_unmap},
      {Command::kGetInfo, sizeof(DeviceInfo), sizeof(DeviceInfo), 0, &Session::get_info},
      {Command::kGetRegionInfo, sizeof(RegionInfo), sizeof(RegionInfo), 0,
       &Session::get_region_info},
      {Command::kGetIrqInfo, sizeof(IrqInfo), sizeof(IrqInfo), 0, &Session::get_irq_info},
      {Command::kSetIrqs, sizeof(SetIrqs), sizeof(SetIrqs), 1, &Session::set_irqs},
      {Command::kRegionRead, sizeof(RegionAccess), sizeof(RegionAccess), 0, &Session::region_read},
      {Command::kRegionWrite, sizeof(RegionAccess), kAny, 0, &Session::region_write},
      {Command::kReset, 0, 0, 0, &Session::reset},
      {Command::kRegionWriteMulti, sizeof(WriteMulti), kAny, 0, &Session::region_write_multi},
  });
  const auto row = std::ranges::find(kRows, static_cast<Command>(command), &Row::command);
  return row == kRows.end() ? nullptr : &*row;
}

amdgpu_criu::Status Session::run() {
  while (true) {
    auto message = TRY(connection_.receive());
    if (!message) return {};
    TRY(answer(*message));
    if (message->header.size > kMaxMessage)
      return amdgpu_criu::Error::of(EMSGSIZE, "the client announced a message of {} bytes",
                                    message->header.size);
  }
}

amdgpu_criu::Status Session::answer(Message& message) {
  Header header = message.header;
  auto reply = handle(message);
  if (header.flags & kNoReply) return {};
  header.flags = kTypeReply;
  header.size = sizeof(Header);
  header.error = 0;
  if (!reply.ok()) {
    header.flags |= kError;
    header.error = static_cast<uint32_t>(reply.error().code());
    return connection_.send(header, {});
  }
  header.size += static_cast<uint32_t>(reply->payload.size());
  return connection_.send(header, reply->payload, reply->fd);
}

amdgpu_criu::Result<Session::Reply> Session::handle(Message& message) {
  const Header& header = message.header;
  if (header.size < sizeof(Header) || header.size > kMaxMessage)
    return invalid("the size in the header is impossible");
  if ((header.flags & kTypeMask) != kTypeCommand || header.flags & ~(kTypeMask | kNoReply))
    return invalid("not a command");
  const Row* row = find(header.command);
  if (!row) return amdgpu_criu::Error::of(ENOTSUP, "unknown command {}", header.command);
  if (negotiated_ == (row->command == Command::kVersion))
    return invalid("VERSION comes first, and once");
  if (message.payload.size() < row->min_payload || message.payload.size() > row->max_payload)
    return invalid("wrong length for this command");
  if (message.too_many_fds || message.fds.size() > row->max_fds)
    return invalid("too many descriptors for this command");
  return (this->*row->handler)(message);
}

amdgpu_criu::Result<Session::Reply> Session::version(Message& message) {
  if (front<Version>(message).major != 0) return invalid("only version 0 is supported");
  // The client's capabilities are limits that this server never reaches.
  if (message.payload.size() > sizeof(Version) && message.payload.back() != std::byte{0})
    return invalid("the version data does not end");
  static constexpr std::string_view kJson =
      R"({"capabilities":{"max_msg_fds":8,"max_data_xfer_size":1048576}})";
  static_assert(kMaxFds == 8 && kMaxTransfer == 1048576);
  Reply reply{bytes_of(Version{0, 0})};
  for (const char c : kJson) reply.payload.push_back(static_cast<std::byte>(c));
  reply.payload.push_back(std::byte{0});
  negotiated_ = true;
  return reply;
}

amdgpu_criu::Result<Session::Reply> Session::dma_map(Message& message) {
  const auto map = front<DmaMap>(message);
  TRY(check_argsz(map.argsz, sizeof(map)));
  if (map.flags & ~(kDmaReadable | kDmaWritable)) return invalid("unknown DMA flags");
  std::optional<amdgpu_criu::Fd> memory;
  if (!message.fds.empty()) memory = std::move(message.fds.front());
  TRY(device_.map_dma({.iova = map.iova,
                       .size = map.size,
                       .readable = (map.flags & kDmaReadable) != 0,
                       .writable = (map.flags & kDmaWritable) != 0},
                      std::move(memory), map.offset));
  return Reply{};
}

amdgpu_criu::Result<Session::Reply> Session::dma_unmap(Message& message) {
  const auto unmap = front<DmaUnmap>(message);
  TRY(check_argsz(unmap.argsz, sizeof(unmap)));
  if (unmap.flags != 0) return invalid("unknown DMA flags");
  TRY(device_.unmap_dma(unmap.iova, unmap.size));
  return Reply{};
}

amdgpu_criu::Result<Session::Reply> Session::get_info(Message& message) {
  TRY(check_argsz(front<DeviceInfo>(message).argsz, sizeof(DeviceInfo)));
  return Reply{bytes_of(DeviceInfo{.argsz = sizeof(DeviceInfo),
                                   .flags = kDevicePci | kDeviceReset,
                                   .regions = PciDevice::kRegions,
                                   .irqs = kIrqs})};
}

amdgpu_criu::Result<Session::Reply> Session::get_region_info(Message& message) {
  const auto asked = front<RegionInfo>(message);
  TRY(check_argsz(asked.argsz, sizeof(asked)));
  if (asked.index >= PciDevice::kRegions) return invalid("no such region");
  const auto region = device_.region(asked.index);
  RegionInfo info{.argsz = sizeof(info),
                  .flags = 0,
                  .index = asked.index,
                  .cap_offset = 0,
                  .size = region.size,
                  .offset = 0};
  if (region.size) info.flags |= kRegionReadable;
  if (region.writable) info.flags |= kRegionWritable;
  if (region.memory) info.flags |= kRegionMappable;
  return Reply{bytes_of(info), region.memory ? region.memory->get() : -1};
}

amdgpu_criu::Result<Session::Reply> Session::get_irq_info(Message& message) {
  const auto asked = front<IrqInfo>(message);
  TRY(check_argsz(asked.argsz, sizeof(asked)));
  // A device without an error interrupt refuses it, as vfio-pci does.
  if (asked.index >= kIrqs || asked.index == kIrqError) return invalid("no such interrupt");
  IrqInfo info{.argsz = sizeof(info), .flags = 0, .index = asked.index, .count = 0};
  if (asked.index == kIrqMsi) {
    info.flags = kIrqEventfd | kIrqNoResize;
    info.count = 1;
  }
  return Reply{bytes_of(info)};
}

amdgpu_criu::Result<Session::Reply> Session::set_irqs(Message& message) {
  const auto set = front<SetIrqs>(message);
  TRY(check_argsz(set.argsz, sizeof(set)));
  if (set.index != kIrqMsi || set.start != 0 || set.count > 1)
    return invalid("there is only one MSI vector");
  if (set.flags == (kSetNone | kSetTrigger) && set.count == 0 && message.fds.empty()) {
    device_.set_interrupt(std::nullopt);
    return Reply{};
  }
  if (set.flags != (kSetEventfd | kSetTrigger) || message.fds.size() > set.count)
    return invalid("interrupts are set by eventfd only");
  std::optional<amdgpu_criu::Fd> event;
  if (!message.fds.empty()) event = std::move(message.fds.front());
  device_.set_interrupt(std::move(event));
  return Reply{};
}

amdgpu_criu::Status Session::check_access(const RegionAccess& access, bool for_write) const {
  if (access.region >= PciDevice::kRegions) return invalid("no such region");
  const auto region = device_.region(access.region);
  if (access.count == 0 || access.count > kMaxTransfer) return invalid("impossible length");
  if (access.offset >= region.size || access.count > region.size - access.offset)
    return invalid("outside of the region");
  if (for_write && !region.writable)
    return amdgpu_criu::Error::of(EPERM, "the region is read-only");
  return {};
}

amdgpu_criu::Result<Session::Reply> Session::region_read(Message& message) {
  const auto access = front<RegionAccess>(message);
  TRY(check_access(access, false));
  Reply reply{bytes_of(access)};
  reply.payload.resize(sizeof(access) + access.count);
  TRY(device_.read(access.region, access.offset, std::span(reply.payload).subspan(sizeof(access))));
  return reply;
}

amdgpu_criu::Result<Session::Reply> Session::region_write(Message& message) {
  const auto access = front<RegionAccess>(message);
  TRY(check_access(access, true));
  const auto data = std::span<const std::byte>(message.payload).subspan(sizeof(access));
  if (data.size() != access.count) return invalid("length and data differ");
  TRY(device_.write(access.region, access.offset, data));
  return Reply{bytes_of(access)};
}

amdgpu_criu::Result<Session::Reply> Session::region_write_multi(Message& message) {
  const auto multi = front<WriteMulti>(message);
  const size_t room = message.payload.size() - sizeof(multi);
  if (multi.count > room / sizeof(WriteMultiEntry) || multi.count * sizeof(WriteMultiEntry) != room)
    return invalid("count and length differ");
  for (uint64_t i = 0; i < multi.count; ++i) {
    WriteMultiEntry entry;
    std::memcpy(&entry, message.payload.data() + sizeof(multi) + i * sizeof(entry), sizeof(entry));
    if (entry.count > sizeof(entry.data)) return invalid("impossible length");
    TRY(check_access({entry.offset, entry.region, entry.count}, true));
    TRY(device_.write(entry.region, entry.offset, std::span(entry.data, entry.count)));
  }
  return Reply{bytes_of(multi)};
}

amdgpu_criu::Result<Session::Reply> Session::reset(Message&) {
  device_.reset();
  return Reply{};
}

}  // namespace gpu::vfio
