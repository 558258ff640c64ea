// SPDX-License-Identifier: GPL-2.0
// dbgapi_waves FILE: prints the waves of a file of `saved_waves --core` as that program does,
// decoded by AMD's debugger library (librocm-dbgapi). `scripts/dbgapi` builds it. The library ends
// the program by SIGABRT if waves, their control stack or their queue do not fit together. Exit
// code: 0 good, 1 the library reports an error, 2 failure.
#include <amd-dbgapi/amd-dbgapi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>

#include "waves/core.h"

namespace {

using namespace amdgpu_criu;

// Of the process, as if its runtime had loaded no code.
constexpr uint64_t kDebugAddress = 0x1000;
constexpr uint32_t kDebugVersion = 10, kDebugBytes = 64;

struct Input {
  std::vector<std::byte> note;                        // AMDGPU core note: LLVM's AMDGPUUsage
  std::map<uint64_t, std::vector<std::byte>> memory;  // by address
};

// The library's own destructors crash if it is not finalized.
[[noreturn]] void fail(int code, const std::string& why) {
  fprintf(stderr, "dbgapi_waves: %s\n", why.c_str());
  _exit(code);
}

void check(amd_dbgapi_status_t status, const char* what) {
  const char* text = "";
  if (status == AMD_DBGAPI_STATUS_SUCCESS) return;
  amd_dbgapi_get_status_string(status, &text);
  fail(1, formatted("{}: {}", what, text));
}

template <typename T>
T load(std::span<const std::byte> bytes, size_t at) {
  T value = {};
  if (at + sizeof(value) > bytes.size()) fail(2, "the file is too short");
  memcpy(&value, &bytes[at], sizeof(value));
  return value;
}

template <typename T>
void append(std::vector<std::byte>& to, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

std::vector<std::byte> note_of(const CoreHeader& header, std::span<const std::byte> entries) {
  struct {
    uint64_t version = 1;
    uint32_t major = KFD_IOCTL_MAJOR_VERSION, minor = KFD_IOCTL_MINOR_VERSION;
    uint64_t runtime_bytes = sizeof(kfd_runtime_info);
    uint32_t gpus, gpu_bytes = sizeof(kfd_dbg_device_info_entry);
    uint32_t queues, queue_bytes = sizeof(kfd_queue_snapshot_entry);
  } begin = {.gpus = header.gpus, .queues = header.queues};
  std::vector<std::byte> note;
  append(note, begin);
  append(note, kfd_runtime_info{.r_debug = kDebugAddress,
                                .runtime_state = DEBUG_RUNTIME_STATE_ENABLED,
                                .ttmp_setup = header.ttmp_setup});
  note.insert(note.end(), entries.begin(), entries.end());
  return note;
}

Input read_input(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  const auto header = load<CoreHeader>(bytes, 0);
  if (memcmp(header.magic, kCoreMagic, sizeof(kCoreMagic)) != 0) fail(2, "the file is no core");
  const size_t entries = header.gpus * sizeof(kfd_dbg_device_info_entry) +
                         header.queues * sizeof(kfd_queue_snapshot_entry);
  size_t at = sizeof(header);
  if (at + entries > bytes.size()) fail(2, "the file is too short");
  Input input;
  input.note = note_of(header, bytes.subspan(at, entries));
  at += entries;
  for (uint32_t i = 0; i < header.ranges; ++i) {
    const auto range = load<CoreRange>(bytes, at);
    at += sizeof(range);
    if (range.size > bytes.size() - at) fail(2, "the file is too short");
    const auto contents = bytes.subspan(at, range.size);
    input.memory[range.address].assign(contents.begin(), contents.end());
    at += range.size;
  }
  auto& debug = input.memory[kDebugAddress];
  debug.resize(kDebugBytes);
  memcpy(debug.data(), &kDebugVersion, sizeof(kDebugVersion));
  return input;
}

Input input;

// The library's requests.
amd_dbgapi_status_t get_process_info(amd_dbgapi_client_process_id_t,
                                     amd_dbgapi_client_process_info_t query, size_t size,
                                     void* value) {
  if (query != AMD_DBGAPI_CLIENT_PROCESS_INFO_CORE_STATE)
    return AMD_DBGAPI_STATUS_ERROR_NOT_AVAILABLE;
  amd_dbgapi_core_state_data_t state = {};
  if (size != sizeof(state)) return AMD_DBGAPI_STATUS_ERROR_INVALID_ARGUMENT_COMPATIBILITY;
  void* const copy = malloc(input.note.size());
  memcpy(copy, input.note.data(), input.note.size());
  state.endianness = AMD_DBGAPI_ENDIAN_LITTLE;
  state.size = input.note.size();
  state.data = copy;
  memcpy(value, &state, sizeof(state));
  return AMD_DBGAPI_STATUS_SUCCESS;
}

// The range that has the address.
std::span<std::byte> memory_at(uint64_t address) {
  for (auto& [begin, bytes] : input.memory)
    if (address >= begin && address - begin < bytes.size())
      return std::span(bytes).subspan(address - begin);
  return {};
}

amd_dbgapi_status_t transfer_memory(amd_dbgapi_client_process_id_t,
                                    amd_dbgapi_global_address_t address, amd_dbgapi_size_t* size,
                                    void* to, const void* from) {
  const auto bytes = memory_at(address);
  *size = std::min<amd_dbgapi_size_t>(*size, bytes.size());
  if (bytes.empty()) return AMD_DBGAPI_STATUS_ERROR_MEMORY_ACCESS;
  if (to) memcpy(to, bytes.data(), *size);
  if (from) memcpy(bytes.data(), from, *size);
  return AMD_DBGAPI_STATUS_SUCCESS;
}

amd_dbgapi_status_t insert_breakpoint(amd_dbgapi_client_process_id_t, amd_dbgapi_global_address_t,
                                      amd_dbgapi_breakpoint_id_t) {
  return AMD_DBGAPI_STATUS_SUCCESS;
}

amd_dbgapi_status_t remove_breakpoint(amd_dbgapi_client_process_id_t, amd_dbgapi_breakpoint_id_t) {
  return AMD_DBGAPI_STATUS_SUCCESS;
}

void log_message(amd_dbgapi_log_level_t, const char* text) {
  fprintf(stderr, "librocm-dbgapi: %s\n", text);
}

struct Free {
  void operator()(void* memory) const { free(memory); }
};
template <typename T>
using Allocated = std::unique_ptr<T, Free>;

template <typename T>
T wave_info(amd_dbgapi_wave_id_t wave, amd_dbgapi_wave_info_t query, const char* what) {
  T value = {};
  check(amd_dbgapi_wave_get_info(wave, query, sizeof(value), &value), what);
  return value;
}

// Prints one wave.
class Printer {
 public:
  Printer(amd_dbgapi_process_id_t process, amd_dbgapi_wave_id_t wave, unsigned group,
          unsigned number)
      : process_(process),
        wave_(wave),
        number_(number),
        label_(formatted("group {} wave {}", group, number)) {}

  void print() const {
    size_t count = 0;
    amd_dbgapi_register_id_t* list = nullptr;
    check(amd_dbgapi_wave_register_list(wave_, &count, &list), "the registers of a wave");
    const Allocated<amd_dbgapi_register_id_t> owner(list);
    for (const auto& id : std::span(list, count)) print(id);
    if (number_ == 0) print_lds();
  }

 private:
  static bool is_numbered(const std::string& name) {
    return name.size() > 1 && strchr("vas", name[0]) &&
           name.find_first_not_of("0123456789", 1) == std::string::npos;
  }

  void print(amd_dbgapi_register_id_t id) const {
    char* text = nullptr;
    size_t size = 0;
    check(amd_dbgapi_register_get_info(id, AMD_DBGAPI_REGISTER_INFO_NAME, sizeof(text), &text),
          "the name of a register");
    const Allocated<char> owner(text);
    const std::string name = text;
    check(amd_dbgapi_register_get_info(id, AMD_DBGAPI_REGISTER_INFO_SIZE, sizeof(size), &size),
          "the size of a register");
    const bool wide = name == "pc" || name == "exec";
    if (!wide && name != "m0" && !is_numbered(name)) return;
    std::vector<uint32_t> words(std::max<size_t>(size / sizeof(uint32_t), wide ? 2 : 1));
    check(amd_dbgapi_read_register(wave_, id, 0, size, words.data()), text);
    std::string line = formatted("{} {}", label_, name);
    if (wide)
      line += formatted(" {:08x}{:08x}", words[1], words[0]);
    else
      for (const uint32_t word : words) line += formatted(" {:08x}", word);
    puts(line.c_str());
  }

  void print_lds() const {
    const auto local = local_space();
    for (uint32_t i = 0;; ++i) {
      uint32_t word = 0;
      amd_dbgapi_size_t size = sizeof(word);
      if (amd_dbgapi_read_memory(process_, wave_, AMD_DBGAPI_LANE_NONE, local, i * sizeof(word),
                                 &size, &word) != AMD_DBGAPI_STATUS_SUCCESS)
        return;
      puts(formatted("{} lds{} {:08x}", label_, i, word).c_str());
    }
  }

  amd_dbgapi_address_space_id_t local_space() const {
    const auto architecture = wave_info<amd_dbgapi_architecture_id_t>(
        wave_, AMD_DBGAPI_WAVE_INFO_ARCHITECTURE, "the architecture of a wave");
    size_t count = 0;
    amd_dbgapi_address_space_id_t* list = nullptr;
    check(amd_dbgapi_architecture_address_space_list(architecture, &count, &list),
          "the address spaces");
    const Allocated<amd_dbgapi_address_space_id_t> owner(list);
    for (const auto& space : std::span(list, count)) {
      char* text = nullptr;
      check(amd_dbgapi_address_space_get_info(space, AMD_DBGAPI_ADDRESS_SPACE_INFO_NAME,
                                              sizeof(text), &text),
            "the name of an address space");
      const Allocated<char> name(text);
      if (strcmp(text, "local") == 0) return space;
    }
    fail(1, "there is no address space of LDS");
  }

  amd_dbgapi_process_id_t process_;
  amd_dbgapi_wave_id_t wave_;
  unsigned number_;
  std::string label_;
};

// In the order of the control stack, which is that of the numbers that the library gives to waves
// and work-groups. It knows a wave's own numbers only where the driver always sets up TTMPs.
void print_waves(amd_dbgapi_process_id_t process) {
  size_t count = 0;
  amd_dbgapi_wave_id_t* list = nullptr;
  check(amd_dbgapi_process_wave_list(process, &count, &list, nullptr), "the list of waves");
  const Allocated<amd_dbgapi_wave_id_t> owner(list);
  std::map<uint64_t, std::map<uint64_t, std::set<uint64_t>>> queues;  // groups of waves
  for (const auto& wave : std::span(list, count)) {
    const auto queue =
        wave_info<amd_dbgapi_queue_id_t>(wave, AMD_DBGAPI_WAVE_INFO_QUEUE, "a queue");
    const auto group =
        wave_info<amd_dbgapi_workgroup_id_t>(wave, AMD_DBGAPI_WAVE_INFO_WORKGROUP, "a work-group");
    queues[queue.handle][group.handle].insert(wave.handle);
  }
  for (const auto& [queue, groups] : queues) {
    puts(formatted("queue {}", queue).c_str());
    unsigned group = 0;
    for (const auto& [id, waves] : groups) {
      unsigned number = 0;
      for (const uint64_t wave : waves)
        Printer(process, amd_dbgapi_wave_id_t{wave}, group, number++).print();
      ++group;
    }
  }
  printf("waves %zu\n", count);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) fail(2, "usage: dbgapi_waves FILE");
  input = read_input(argv[1]);
  amd_dbgapi_callbacks_t callbacks = {
      malloc,          free,       get_process_info, insert_breakpoint, remove_breakpoint,
      transfer_memory, log_message};
  amd_dbgapi_process_id_t process = {};
  amd_dbgapi_set_log_level(AMD_DBGAPI_LOG_LEVEL_WARNING);
  check(amd_dbgapi_initialize(&callbacks), "the library");
  check(
      amd_dbgapi_process_attach(reinterpret_cast<amd_dbgapi_client_process_id_t>(&input), &process),
      "the process");
  print_waves(process);
  check(amd_dbgapi_process_detach(process), "detaching");
  check(amd_dbgapi_finalize(), "the end of the library");
  return 0;
}
