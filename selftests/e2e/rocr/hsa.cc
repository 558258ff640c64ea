// SPDX-License-Identifier: GPL-2.0
#include "rocr/hsa.h"

#include <hsa/hsa_ext_amd.h>

#include <cstring>
#include <deque>

namespace e2e {

using amdgpu_criu::Error;
using amdgpu_criu::Fd;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

namespace {

constexpr uint32_t kQueuePackets = 256;

Status check(hsa_status_t status, const char* what) {
  if (status == HSA_STATUS_SUCCESS) return {};
  const char* text = nullptr;
  hsa_status_string(status, &text);
  return Error::of(EIO, "{}: {}", what, text ? text : "unknown HSA status");
}

struct Agents {
  hsa_agent_t cpu = {};
  std::vector<hsa_agent_t> gpus;
};

hsa_status_t note_agent(hsa_agent_t agent, void* out) {
  auto& agents = *static_cast<Agents*>(out);
  hsa_device_type_t type;
  if (const auto status = hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type)) return status;
  if (type == HSA_DEVICE_TYPE_GPU)
    agents.gpus.push_back(agent);
  else if (!agents.cpu.handle)
    agents.cpu = agent;
  return HSA_STATUS_SUCCESS;
}

struct PoolWanted {
  uint32_t flag;  // HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_*
  uint64_t found = 0;
};

hsa_status_t note_pool(hsa_amd_memory_pool_t pool, void* out) {
  auto& wanted = *static_cast<PoolWanted*>(out);
  hsa_amd_segment_t segment;
  uint32_t flags = 0;
  bool allowed = false;
  hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
  if (segment != HSA_AMD_SEGMENT_GLOBAL) return HSA_STATUS_SUCCESS;
  hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags);
  hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &allowed);
  if (allowed && (flags & wanted.flag) && !wanted.found) wanted.found = pool.handle;
  return HSA_STATUS_SUCCESS;
}

Result<uint64_t> find_pool(hsa_agent_t agent, uint32_t flag, const char* what) {
  PoolWanted wanted = {flag};
  TRY(check(hsa_amd_agent_iterate_memory_pools(agent, note_pool, &wanted), what));
  if (!wanted.found) return Error::of(ENOTSUP, "no {}", what);
  return wanted.found;
}

}  // namespace

Result<std::unique_ptr<Runtime>> Runtime::create(unsigned gpus) {
  if (!check(hsa_init(), "hsa_init").ok())
    return Error::of(ENODEV, "the HSA runtime finds no driver");
  std::unique_ptr<Runtime> runtime(new Runtime());
  Agents agents;
  TRY(check(hsa_iterate_agents(note_agent, &agents), "listing agents"));
  if (agents.gpus.size() < gpus)
    return Error::of(ENODEV, "the HSA runtime finds {} of {} GPUs", agents.gpus.size(), gpus);
  agents.gpus.resize(gpus);
  runtime->gpus_ = std::move(agents.gpus);
  runtime->cpu_ = agents.cpu;
  runtime->host_pool_ = TRY(
      find_pool(agents.cpu, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED, "pool of host memory"));
  return runtime;
}

Runtime::~Runtime() { hsa_shut_down(); }

Result<uint32_t> Runtime::compute_units(unsigned gpu) const {
  uint32_t units = 0;
  constexpr auto kUnits = static_cast<hsa_agent_info_t>(HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT);
  TRY(check(hsa_agent_get_info(gpus_[gpu], kUnits, &units), "counting compute units"));
  return units;
}

Result<std::string> Runtime::isa(unsigned gpu) const {
  char name[64] = {};
  TRY(check(hsa_agent_get_info(gpus_[gpu], HSA_AGENT_INFO_NAME, name), "naming a GPU"));
  return std::string(name);
}

Result<Buffer> Buffer::create(const Runtime& runtime, Place place, size_t size, unsigned gpu) {
  const hsa_agent_t agent = place == Place::kHost ? runtime.cpu_ : runtime.gpu(gpu);
  uint64_t pool = runtime.host_pool_;
  if (place == Place::kDevice)
    pool = TRY(
        find_pool(agent, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED, "pool of device memory"));
  if (place == Place::kSharedDevice)
    pool = TRY(find_pool(agent, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED,
                         "pool of device memory that GPUs share"));
  void* data = nullptr;
  TRY(check(hsa_amd_memory_pool_allocate({pool}, size, 0, &data), "allocating memory"));
  Buffer buffer(static_cast<std::byte*>(data), size, agent, false);
  if (place != Place::kDevice)
    TRY(check(
        hsa_amd_agents_allow_access(runtime.gpus_.size(), runtime.gpus_.data(), nullptr, data),
        "mapping memory on the GPUs"));
  return buffer;
}

Result<Buffer> Buffer::import(const Runtime& runtime, const Fd& dmabuf, unsigned gpu) {
  std::vector<hsa_agent_t> agents = runtime.gpus_;
  void* data = nullptr;
  size_t size = 0;
  TRY(check(hsa_amd_interop_map_buffer(agents.size(), agents.data(), dmabuf.get(), 0, &size, &data,
                                       nullptr, nullptr),
            "importing memory"));
  return Buffer(static_cast<std::byte*>(data), size, runtime.gpu(gpu), true);
}

Result<Fd> Buffer::export_dmabuf() const {
  int fd = -1;
  uint64_t offset = 0;
  TRY(check(hsa_amd_portable_export_dmabuf(data_, size_, &fd, &offset), "exporting memory"));
  Fd owned(fd);
  if (offset) return Error::of(ENOTSUP, "the memory begins {} bytes inside of a dma-buf", offset);
  return owned;
}

Buffer::~Buffer() {
  if (data_ && imported_) hsa_amd_interop_unmap_buffer(data_);
  if (data_ && !imported_) hsa_amd_memory_pool_free(data_);
}

Status keep_on_host(const Runtime& runtime, std::span<std::byte> memory) {
  hsa_amd_svm_attribute_pair_t location = {HSA_AMD_SVM_ATTRIB_PREFERRED_LOCATION,
                                           runtime.cpu().handle};
  return check(hsa_amd_svm_attributes_set(memory.data(), memory.size(), &location, 1),
               "hsa_amd_svm_attributes_set");
}

Result<Signal> Signal::create(int64_t value) {
  hsa_signal_t signal = {};
  TRY(check(hsa_signal_create(value, 0, nullptr, &signal), "creating a signal"));
  return Signal(signal);
}

Signal::~Signal() {
  if (signal_.handle) hsa_signal_destroy(signal_);
}

void Signal::store(int64_t value) const { hsa_signal_store_screlease(signal_, value); }
int64_t Signal::load() const { return hsa_signal_load_scacquire(signal_); }

// The runtime counts the timeout in system clock ticks.
bool Signal::wait_for(int64_t value, unsigned timeout_ms) const {
  uint64_t frequency = 0;
  hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY, &frequency);
  return hsa_signal_wait_scacquire(signal_, HSA_SIGNAL_CONDITION_EQ, value,
                                   frequency / 1000 * timeout_ms, HSA_WAIT_STATE_BLOCKED) == value;
}

Status Signal::when_zero(void (*call)(void*), void* argument) const {
  struct Once {
    void (*call)(void*);
    void* argument;
  };
  auto once = std::make_unique<Once>(Once{call, argument});
  const auto handler = [](hsa_signal_value_t, void* opaque) {
    const std::unique_ptr<Once> owned(static_cast<Once*>(opaque));
    owned->call(owned->argument);
    return false;  // call it only once
  };
  TRY(check(hsa_amd_signal_async_handler(signal_, HSA_SIGNAL_CONDITION_EQ, 0, handler, once.get()),
            "registering a signal handler"));
  (void)once.release();  // the handler owns it now
  return {};
}

Status async_copy(const Buffer& to, size_t to_offset, const Buffer& from, size_t from_offset,
                  size_t size, const Signal* after, const Signal& completion) {
  const hsa_signal_t dependency = after ? after->get() : hsa_signal_t{0};
  return check(hsa_amd_memory_async_copy(
                   to.data() + to_offset, to.agent(), from.data() + from_offset, from.agent(), size,
                   after ? 1 : 0, after ? &dependency : nullptr, completion.get()),
               "submitting a copy");
}

Result<AqlUserQueue> AqlUserQueue::create(const Runtime& runtime, unsigned gpu) {
  hsa_queue_t* queue = nullptr;
  TRY(check(hsa_queue_create(runtime.gpu(gpu), kQueuePackets, HSA_QUEUE_TYPE_SINGLE, nullptr,
                             nullptr, UINT32_MAX, UINT32_MAX, &queue),
            "creating a queue"));
  return AqlUserQueue(queue);
}

AqlUserQueue::~AqlUserQueue() {
  if (queue_) hsa_queue_destroy(queue_);
}

// The header, which makes a packet valid, is written after the rest of it.
template <typename Packet>
Status AqlUserQueue::submit(Packet packet, uint16_t type) const {
  static_assert(sizeof(Packet) == 64);
  const uint64_t index = hsa_queue_load_write_index_relaxed(queue_);
  if (index - hsa_queue_load_read_index_scacquire(queue_) >= queue_->size)
    return Error::of(ENOBUFS, "the HSA queue is full");
  packet.header = HSA_PACKET_TYPE_INVALID;
  auto* slot = static_cast<Packet*>(queue_->base_address) + index % queue_->size;
  *slot = packet;
  const auto header =
      static_cast<uint16_t>(type << HSA_PACKET_HEADER_TYPE | 1 << HSA_PACKET_HEADER_BARRIER |
                            HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                            HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE);
  __atomic_store_n(&slot->header, header, __ATOMIC_RELEASE);
  hsa_queue_store_write_index_screlease(queue_, index + 1);
  hsa_signal_store_screlease(queue_->doorbell_signal, static_cast<int64_t>(index));
  return {};
}

Status AqlUserQueue::barrier(const Signal& after, const Signal& completion) const {
  hsa_barrier_and_packet_t packet = {};
  packet.dep_signal[0] = after.get();
  packet.completion_signal = completion.get();
  return submit(packet, HSA_PACKET_TYPE_BARRIER_AND);
}

Status AqlUserQueue::dispatch(const Kernel& kernel, const Shape& shape, void* arguments,
                              const Signal* completion) const {
  hsa_kernel_dispatch_packet_t packet = {};
  packet.setup = 2 << HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS;
  packet.workgroup_size_x = shape.group[0];
  packet.workgroup_size_y = shape.group[1];
  packet.workgroup_size_z = 1;
  packet.grid_size_x = shape.grid[0];
  packet.grid_size_y = shape.grid[1];
  packet.grid_size_z = 1;
  packet.private_segment_size = kernel.private_size;
  packet.group_segment_size = kernel.group_size;
  packet.kernel_object = kernel.object;
  packet.kernarg_address = arguments;
  if (completion) packet.completion_signal = completion->get();
  return submit(packet, HSA_PACKET_TYPE_KERNEL_DISPATCH);
}

Status when_memory_faults(void (*call)(uint64_t address, void* argument), void* argument) {
  struct Handler {
    void (*call)(uint64_t address, void* argument);
    void* argument;
  };
  // The runtime keeps it to its end.
  static Handler handler;
  handler = {call, argument};
  const auto forward = [](const hsa_amd_event_t* event, void*) {
    if (event->event_type == HSA_AMD_GPU_MEMORY_FAULT_EVENT)
      handler.call(event->memory_fault.virtual_address, handler.argument);
    return HSA_STATUS_SUCCESS;
  };
  return check(hsa_amd_register_system_event_handler(forward, nullptr),
               "registering a handler of faults");
}

Result<AqlUserQueue> AqlUserQueue::create_with(const Runtime& runtime, const QueueSetup& setup) {
  hsa_queue_t* queue = nullptr;
  const hsa_queue_type32_t type =
      setup.cooperative ? HSA_QUEUE_TYPE_COOPERATIVE : HSA_QUEUE_TYPE_SINGLE;
  // It lives as long as its runtime.
  static std::deque<QueueSetup> setups;
  setups.push_back(setup);
  const auto forward = [](hsa_status_t status, hsa_queue_t*, void* data) {
    const auto& wanted = *static_cast<QueueSetup*>(data);
    if (wanted.on_error) wanted.on_error(status, wanted.argument);
  };
  TRY(check(
      hsa_queue_create(runtime.gpu(), kQueuePackets, type, setup.on_error ? +forward : nullptr,
                       &setups.back(), UINT32_MAX, UINT32_MAX, &queue),
      "creating a queue"));
  return AqlUserQueue(queue);
}

Status AqlUserQueue::enable_units(uint32_t mask) const {
  return check(hsa_amd_queue_cu_set_mask(queue_, 32, &mask), "choosing compute units");
}

Result<Executable> Executable::load(const Runtime& runtime, const CodeObjects& objects,
                                    unsigned gpu) {
  Executable loaded(runtime.gpu(gpu));
  const std::string isa = TRY(runtime.isa(gpu));
  const auto object = objects.find(isa);
  if (object == objects.end()) return Error::of(ENOEXEC, "no kernels for {}", isa);
  TRY(check(hsa_code_object_reader_create_from_memory(object->second.data(), object->second.size(),
                                                      &loaded.reader_),
            "reading a code object"));
  TRY(check(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT,
                                      nullptr, &loaded.executable_),
            "creating an executable"));
  TRY(check(hsa_executable_load_agent_code_object(loaded.executable_, runtime.gpu(gpu),
                                                  loaded.reader_, nullptr, nullptr),
            "loading a code object"));
  TRY(check(hsa_executable_freeze(loaded.executable_, nullptr), "freezing an executable"));
  return loaded;
}

Executable::~Executable() {
  if (executable_.handle) hsa_executable_destroy(executable_);
  if (reader_.handle) hsa_code_object_reader_destroy(reader_);
}

Result<Kernel> Executable::kernel(const std::string& name) const {
  hsa_executable_symbol_t symbol = {};
  TRY(check(
      hsa_executable_get_symbol_by_name(executable_, (name + ".kd").c_str(), &agent_, &symbol),
      "finding a kernel"));
  Kernel kernel;
  const auto ask = [&](hsa_executable_symbol_info_t what, void* out) {
    return check(hsa_executable_symbol_get_info(symbol, what, out), "asking about a kernel");
  };
  TRY(ask(HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &kernel.object));
  TRY(ask(HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE, &kernel.group_size));
  TRY(ask(HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE, &kernel.private_size));
  TRY(ask(HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE, &kernel.kernarg_size));
  return kernel;
}

}  // namespace e2e
