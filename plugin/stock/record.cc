// SPDX-License-Identifier: GPL-2.0
#include "stock/record.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "amdgpu_criu_stock.pb-c.h"

namespace amdgpu_criu::stock {
namespace {

using Bytes = std::span<const std::byte>;

constexpr char kMagic[8] = {'A', 'M', 'D', 'K', 'F', 'D', 'O', 'P'};

struct Freer {
  void operator()(AmdgpuCriu__Stock__Pb__Process* message) const {
    amdgpu_criu__stock__pb__process__free_unpacked(message, nullptr);
  }
};

uint8_t* unconst(Bytes bytes) {
  return const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(bytes.data()));
}

}  // namespace

bool is_record(Bytes blob) {
  return blob.size() >= sizeof(kMagic) && memcmp(blob.data(), kMagic, sizeof(kMagic)) == 0;
}

std::vector<std::byte> encode(const Record& record) {
  std::vector<AmdgpuCriu__Stock__Pb__Bo> bos;
  for (const uint32_t flags : record.alloc_flags) {
    auto& bo = bos.emplace_back() = AMDGPU_CRIU__STOCK__PB__BO__INIT;
    bo.has_alloc_flags = 1;
    bo.alloc_flags = flags;
  }
  std::vector<AmdgpuCriu__Stock__Pb__Bo*> pointers;
  for (auto& bo : bos) pointers.push_back(&bo);
  AmdgpuCriu__Stock__Pb__Process message = AMDGPU_CRIU__STOCK__PB__PROCESS__INIT;
  message.n_bo = pointers.size();
  message.bo = pointers.data();
  message.has_num_objects = 1;
  message.num_objects = record.num_objects;
  message.has_private_data = 1;
  message.private_data = {record.private_data.size(), unconst(record.private_data)};
  std::vector<std::byte> blob(sizeof(kMagic) +
                              amdgpu_criu__stock__pb__process__get_packed_size(&message));
  memcpy(blob.data(), kMagic, sizeof(kMagic));
  amdgpu_criu__stock__pb__process__pack(&message,
                                        reinterpret_cast<uint8_t*>(blob.data()) + sizeof(kMagic));
  return blob;
}

Result<Record> decode(Bytes blob) {
  if (!is_record(blob)) return Error(EBADMSG, "is not of the stock kernel's ioctl");
  const Bytes bytes = blob.subspan(sizeof(kMagic));
  const std::unique_ptr<AmdgpuCriu__Stock__Pb__Process, Freer> message(
      amdgpu_criu__stock__pb__process__unpack(nullptr, bytes.size(), unconst(bytes)));
  if (!message) return Error(EBADMSG, "the stock kernel's state cannot be decoded");
  if (!message->has_num_objects || !message->has_private_data)
    return Error(EBADMSG, "the stock kernel's state is incomplete");
  Record record;
  record.num_objects = message->num_objects;
  for (size_t i = 0; i < message->n_bo; i++) {
    if (!message->bo[i]->has_alloc_flags)
      return Error(EBADMSG, "the stock kernel's state has a BO without flags");
    record.alloc_flags.push_back(message->bo[i]->alloc_flags);
  }
  const Bytes data =
      std::as_bytes(std::span(message->private_data.data, message->private_data.len));
  record.private_data.assign(data.begin(), data.end());
  return record;
}

bool is_stock(const image::Set& images) {
  return std::ranges::any_of(images.processes(), [](const auto& entry) {
    return entry.second.blob && is_record(*entry.second.blob);
  });
}

}  // namespace amdgpu_criu::stock
