// SPDX-License-Identifier: GPL-2.0
// Dump and restore through the plugin's hooks on a kernel that has only the stock ioctl.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "image/set.h"
#include "stock/private_data.h"
#include "stock/record.h"
#include "tests/fake_stock.h"
#include "tests/kfd_program.h"
#include "tests/refused_call.h"

namespace amdgpu_criu::stock {
namespace {

using testing::HasSubstr;
using testing_support::fake_stock;
using testing_support::FakeQueue;
using testing_support::kGpu;
using testing_support::kKfdId;
using testing_support::kOffset;
using testing_support::kRenderId;
using testing_support::make_private_data;
using testing_support::program;

constexpr uint64_t kVa = 0x7f0000000000;
constexpr uint32_t kStack = 0x4000;

// Private data

class PrivateData : public testing::Test {
 protected:
  static std::string problem(const std::vector<std::byte>& data, Counts counts) {
    const auto described = describe(data, counts);
    return described.ok() ? "" : described.error().message();
  }
};

TEST_F(PrivateData, CountsItsObjects) {
  const auto data = make_private_data(2, 3, {{.type = 1}, {}}, 4, 5);
  const auto described = describe(data, {2, 3, 11});
  ASSERT_TRUE(described.ok()) << described.error().message();
  EXPECT_EQ(described->queues, 2u);
  EXPECT_EQ(described->events, 4u);
  EXPECT_EQ(described->svm_ranges, 5u);
  EXPECT_EQ(described->data, data);
}

TEST_F(PrivateData, AddsRoomForAControlStackThatWasNotSaved) {
  const std::vector<FakeQueue> had = {{.stack_size = kStack}, {.type = 1}};
  const std::vector<FakeQueue> wanted = {{.stack_size = kStack, .stack_saved = kStack},
                                         {.type = 1}};
  const auto described = describe(make_private_data(1, 1, had, 1, 1), {1, 1, 4});
  ASSERT_TRUE(described.ok()) << described.error().message();
  auto expected = make_private_data(1, 1, wanted, 1, 1);
  // The room is filled with zeros; a saved stack is not changed.
  std::ranges::replace(expected, std::byte{0xcc}, std::byte{0});
  EXPECT_EQ(described->data, expected);
  const auto again = describe(described->data, {1, 1, 4});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->data, described->data);
}

TEST_F(PrivateData, RefusesWavesThatWereNotSaved) {
  const auto data =
      make_private_data(1, 0, {{.type = 1}, {.stack_size = kStack, .stack_used = 96}}, 0, 0);
  EXPECT_THAT(problem(data, {1, 0, 2}), HasSubstr("queue 1 on GPU 0x11 was stopped in the middle"));
  EXPECT_THAT(problem(data, {1, 0, 2}), HasSubstr("of the 96 bytes"));
}

TEST_F(PrivateData, RefusesEveryTruncationAndEveryExcess) {
  const auto whole = make_private_data(2, 2, {{.stack_size = 64}, {.type = 1}}, 1, 1);
  const Counts counts{2, 2, 4};
  ASSERT_EQ(problem(whole, counts), "");
  for (size_t length = 0; length < whole.size(); length++)
    ASSERT_NE(problem({whole.begin(), whole.begin() + length}, counts), "") << length;
  auto longer = whole;
  longer.push_back({});
  EXPECT_THAT(problem(longer, counts), HasSubstr("is longer"));
}

TEST_F(PrivateData, RefusesAnUnknownVersionAndUnknownObjects) {
  EXPECT_THAT(problem(make_private_data(1, 1, {}, 0, 0, 2), {1, 1, 0}), HasSubstr("version 2"));
  auto data = make_private_data(0, 0, {}, 1, 0);
  data[8] = std::byte{9};
  EXPECT_THAT(problem(data, {0, 0, 1}), HasSubstr("unknown type"));
}

TEST_F(PrivateData, RefusesAnImpossibleControlStack) {
  auto data = make_private_data(0, 0, {{.stack_size = 64, .stack_used = 128}}, 0, 0);
  EXPECT_THAT(problem(data, {0, 0, 1}), HasSubstr("inconsistent"));
  data = make_private_data(0, 0, {{.stack_size = 0x80000000}}, 0, 0);
  EXPECT_THAT(problem(data, {0, 0, 1}), HasSubstr("inconsistent"));
}

TEST_F(PrivateData, RefusesMoreControlStacksThanAGpuHas) {
  EXPECT_EQ(
      problem(make_private_data(0, 0, {{.stack_size = kStack, .cores = 16}}, 0, 0), {0, 0, 1}), "");
  EXPECT_THAT(problem(make_private_data(0, 0, {{.stack_size = 64, .cores = 17}}, 0, 0), {0, 0, 1}),
              HasSubstr("more MQDs"));
}

TEST(Record, ReadsBackWhatWasWritten) {
  const Record record{{1, 0x80000002}, 7, {std::byte{1}, std::byte{2}}};
  const auto blob = encode(record);
  ASSERT_TRUE(is_record(blob));
  const auto read = decode(blob);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->alloc_flags, record.alloc_flags);
  EXPECT_EQ(read->num_objects, 7u);
  EXPECT_EQ(read->private_data, record.private_data);
  EXPECT_FALSE(decode(std::span(blob).first(4)).ok());
  EXPECT_FALSE(decode(std::span(blob).first(9)).ok());
}

// Hooks

class Stock : public testing_support::KfdProgramTest {
 protected:
  void SetUp() override {
    KfdProgramTest::SetUp();
    make_stock_ = testing_support::make_fake_stock;
    state_.failures["QUERY"] = ENOTTY;
    fake_stock = {};
    std::filesystem::create_directory(kfd_processes_.file(std::to_string(getpid())));
    fake_stock.pid = getpid();
    fake_stock.devices = {{kGpu, kGpu}};
    fake_stock.add_bo(kVa, 0x5000, kOffset, kGpu, kVram);
    fake_stock.add_bo(kVa + 0x100000, 0x3000, 0x200000, kGpu, kGtt | 0x80000000);
    fake_stock.add_bo(kVa + 0x200000, 0x2000, 0x123000, kGpu, kUserptr);
    fake_stock.objects = 2;
    fake_stock.private_data = make_private_data(1, 3, {{.stack_size = kStack}}, 1, 0);
  }

  void expect_refused(const std::string& why) {
    EXPECT_LT(dump(), 0);
    EXPECT_THAT(log(), HasSubstr(why));
    EXPECT_EQ(fake_stock.evicted, 0);
    EXPECT_FALSE(fake_stock.paused);
  }
};

TEST_F(Stock, DumpThenRestoreBringsBackEveryByte) {
  const std::string first = fake_stock.contents(kVa);
  const std::string second = fake_stock.contents(kVa + 0x100000);
  ASSERT_EQ(dump(), 0) << log();
  EXPECT_EQ(fake_stock.evicted, 0);
  EXPECT_EQ(program.inventory_calls, 1);
  EXPECT_THAT(log(), HasSubstr("lacks the amdgpu-criu series"));

  fake_stock.clear_memory();
  ASSERT_EQ(start(criu::kStageRestore), 0) << log();
  const Fd render(restore_file(kRenderId));
  ASSERT_TRUE(render.valid()) << log();
  const Fd kfd(restore_file(kKfdId));
  ASSERT_TRUE(kfd.valid()) << log();
  EXPECT_EQ(fake_stock.contents(kVa), first);
  EXPECT_EQ(fake_stock.contents(kVa + 0x100000), second);
  EXPECT_EQ(fake_stock.restored_flags, (std::vector<uint32_t>{kVram, kGtt | 0x80000000, kUserptr}));
  ASSERT_EQ(fake_stock.restored_devices.size(), 1u);
  EXPECT_EQ(fake_stock.restored_data.size(), fake_stock.private_data.size() + kStack);
  const Mapped mapped = update_vma(vma_.data());
  EXPECT_EQ(mapped.result, 1);
  EXPECT_EQ(mapped.offset, kOffset + 0x500000000);
  EXPECT_TRUE(*host::same_file(mapped.file.get(), render.get()));
  EXPECT_EQ(resume(getpid()), 0) << log();
  EXPECT_EQ(fake_stock.resumed, getpid());
  end(criu::kStageRestore, 0);
}

// Incremental dumps and snapshots have hashes, which the GPU would compare with what it got.
class StockWithHashes : public Stock {
 protected:
  void SetUp() override {
    Stock::SetUp();
    testing_support::hashes_of_gpu = -1;
    setenv("AMDGPU_CRIU_INCREMENTAL", "on", 1);
    const int result = dump();
    unsetenv("AMDGPU_CRIU_INCREMENTAL");
    ASSERT_EQ(result, 0) << log();
    const auto loaded = image::load_contents(images_.fd());
    ASSERT_TRUE(loaded.ok() && !loaded->at(0).contents.objects.at(0).hashes.empty());
    contents_ = loaded->at(0).name;
  }
  void TearDown() override {
    testing_support::hashes_of_gpu = 0;
    Stock::TearDown();
  }

  std::string contents_;  // the file
};

TEST_F(StockWithHashes, ARestoreBringsBackEveryByte) {
  const std::string first = fake_stock.contents(kVa);
  const std::string second = fake_stock.contents(kVa + 0x100000);
  fake_stock.clear_memory();
  ASSERT_EQ(start(criu::kStageRestore), 0) << log();
  const Fd kfd(restore_file(kKfdId));
  ASSERT_TRUE(kfd.valid()) << log();
  EXPECT_EQ(fake_stock.contents(kVa), first);
  EXPECT_EQ(fake_stock.contents(kVa + 0x100000), second);
  end(criu::kStageRestore, 0);
}

TEST_F(StockWithHashes, DamageIsFoundBeforeItReachesTheGpu) {
  std::string bytes = images_.read(contents_);
  bytes[image::kDataStart] ^= 1;
  images_.write(contents_, bytes);
  fake_stock.clear_memory();
  ASSERT_EQ(start(criu::kStageRestore), 0) << log();
  EXPECT_EQ(restore_file(kKfdId), -EBADMSG);
  EXPECT_THAT(log(), HasSubstr("checksum does not match"));
  EXPECT_EQ(fake_stock.contents(kVa), std::string(0x5000, 0));
  end(criu::kStageRestore, -1);
}

TEST_F(Stock, ASecondFileOfTheProcessDoesNotPauseItAgain) {
  const Fd other = open(testing_support::kKfdPath);
  ASSERT_EQ(start(criu::kStageDump), 0);
  ASSERT_EQ(pause(getpid()), 0) << log();
  EXPECT_EQ(fake_stock.evicted, 1);
  EXPECT_EQ(dump_file(kfd_, kKfdId), 0) << log();
  EXPECT_EQ(dump_file(other, 0x30), 0) << log();
  EXPECT_EQ(fake_stock.evicted, 1);
  end(criu::kStageDump, 0);
  EXPECT_EQ(fake_stock.evicted, 0);
}

// The kernel would leave its queues stopped.
TEST_F(Stock, ASignalBetweenTwoHooksUnpausesTheProcess) {
  for (const auto& [all_hooks, number] : {std::pair(false, SIGTERM), std::pair(true, SIGHUP)}) {
    const Fd unpaused(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const pid_t criu = fork();
    if (criu == 0) {
      const rlimit none{};
      setrlimit(RLIMIT_CORE, &none);
      fake_stock.pid = state_.pid = getpid();
      std::filesystem::create_directory(kfd_processes_.file(std::to_string(getpid())));
      fake_stock.on_unpause = [&] { eventfd_write(unpaused.get(), 1); };
      if (start(criu::kStageDump) != 0) _exit(1);
      if ((all_hooks ? dump_hooks() : pause(getpid())) != 0) _exit(2);
      eventfd_t early;
      if (eventfd_read(unpaused.get(), &early) == 0) _exit(3);
      raise(number);
      _exit(4);
    }
    int status = 0;
    ASSERT_EQ(waitpid(criu, &status, 0), criu);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number) << WEXITSTATUS(status);
    eventfd_t times = 0;
    eventfd_read(unpaused.get(), &times);
    EXPECT_EQ(times, 1u);
    EXPECT_TRUE(images_.names().empty());
  }
}

TEST_F(Stock, LeaksNoDescriptor) {
  const size_t before = testing_support::count_open_files();
  ASSERT_EQ(dump(), 0) << log();
  EXPECT_EQ(testing_support::count_open_files(), before);
  ASSERT_EQ(start(criu::kStageRestore), 0) << log();
  {
    const Fd render(restore_file(kRenderId));
    const Fd kfd(restore_file(kKfdId));
    ASSERT_TRUE(kfd.valid()) << log();
  }
  end(criu::kStageRestore, 0);
  testing_support::make_fd_store();
  EXPECT_EQ(testing_support::count_open_files(), before);
}

TEST_F(Stock, ABufferOfARenderNodeIsRefusedByName) {
  fake_stock.gem_handles = 3;
  expect_refused("has 3 buffer objects of its own on renderD5");
}

// Linux before 6.18 does not list them. ROCm opens a render node in any process, so they may be
// there.
TEST_F(Stock, BuffersOfARenderNodeThatTheKernelCannotListAreMentioned) {
  fake_stock.failures["GEM_LIST_HANDLES"] = ENOTTY;
  EXPECT_EQ(dump(), 0) << log();
  EXPECT_THAT(log(), HasSubstr("cannot list the buffer objects that process"));
  const Fd no_driver = open("/dev/null");
  EXPECT_EQ(make_ioctl()->count_gem_handles(no_driver.get()).error().code(), ENOTTY);
}

TEST_F(Stock, AnErrorOfTheListOfBuffersFailsTheDump) {
  fake_stock.failures["GEM_LIST_HANDLES"] = EFAULT;
  expect_refused("injected failure of GEM_LIST_HANDLES");
}

// The kernel does not end the pause by itself, as it does with a session.
TEST_F(Stock, AProcessThatStaysPausedIsAnError) {
  fake_stock.failures["UNPAUSE"] = EIO;
  EXPECT_EQ(dump(), 0) << log();
  EXPECT_THAT(log(), HasSubstr("Error (amdgpu): process " + std::to_string(getpid()) +
                               " stays paused on the GPU"));
}

// The kernel asks for another attempt.
TEST_F(Stock, NoOperationIsRepeatedWithoutALimit) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(120);
    int code = 0;
    const bool allowed = testing_support::without({SYS_ioctl, 0, EAGAIN}, [&] {
      const auto info = make_ioctl()->process_info(kfd_.get());
      if (!info.ok()) code = info.error().code();
    });
    _exit(allowed ? code : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "killed by the alarm";
  EXPECT_EQ(WEXITSTATUS(status), EAGAIN);
}

TEST_F(Stock, ASecondFileOfTheRenderNodeIsRefusedByName) {
  const Fd other = open(testing_support::kRenderPath);
  expect_refused("has opened renderD5 more than once");
}

TEST_F(Stock, AnUnusedGpuIsRefusedBecauseTheKernelWouldCrash) {
  write_topology(testing_support::kOtherGpu, 32, testing_support::kOtherMinor);
  fake_stock.devices.push_back({testing_support::kOtherGpu, testing_support::kOtherGpu});
  fake_stock.failures["CHECKPOINT"] = EFAULT;  // must not be reached
  expect_refused("crashes on a process that does not use all GPUs");
}

TEST_F(Stock, ASharedBufferIsRefusedByName) {
  fake_stock.bos.push_back({kVa + 0x900000, 0x5000, 0x700000, kGpu, kVram, 0, Fd()});
  fake_stock.memory[kVa + 0x900000] = std::move(*fake_stock.memory[kVa].duplicate());
  fake_stock.private_data = make_private_data(1, 4, {{.stack_size = kStack}}, 1, 0);
  expect_refused("is shared");
}

TEST_F(Stock, APartOfAMappingIsRefusedByName) {
  vma_ = std::move(*Mapping::map(4096, PROT_READ, MAP_PRIVATE, render_.get(), kOffset + 0x1000));
  expect_refused("it was split by munmap()");
}

TEST_F(Stock, WavesInFlightAreRefusedByName) {
  fake_stock.private_data =
      make_private_data(1, 3, {{.stack_size = kStack, .stack_used = 64}}, 1, 0);
  expect_refused("was stopped in the middle of its work");
}

TEST_F(Stock, AFileOfAnotherProcessIsRefusedByName) {
  std::filesystem::remove(kfd_processes_.file(std::to_string(getpid())));
  expect_refused("that another process opened");
}

TEST_F(Stock, AFileOfAnotherPidIsRefusedByName) {
  fake_stock.pid = 1;
  expect_refused("belongs to process 1");
}

class StockFailedDump : public Stock, public testing::WithParamInterface<const char*> {};
TEST_P(StockFailedDump, ContinuesTheProcess) {
  fake_stock.failures[GetParam()] = EIO;
  expect_refused(std::string("injected failure of ") + GetParam());
}
INSTANTIATE_TEST_SUITE_P(Operations, StockFailedDump,
                         testing::Values("PROCESS_INFO", "CHECKPOINT"));

TEST_F(Stock, AnExceptionContinuesTheProcess) {
  fake_stock.on_checkpoint = [] { throw std::bad_alloc(); };
  expect_refused("bad_alloc");
}

TEST_F(Stock, AFailedCopyContinuesTheProcess) {
  testing_support::fail_copies_after = 1;
  expect_refused("injected failure of a copy");
}

TEST_F(Stock, ARenderNodeAloneIsRefusedByName) {
  kfd_ = Fd();
  ASSERT_EQ(start(criu::kStageDump), 0);
  ASSERT_EQ(pause(getpid()), 0) << log();
  EXPECT_LT(dump_file(render_, kRenderId), 0);
  EXPECT_THAT(log(), HasSubstr("does not carry what was done through it"));
  end(criu::kStageDump, -1);
}

TEST_F(Stock, AnotherNumberOfGpusIsRefusedBeforeTheKernelIsAsked) {
  ASSERT_EQ(dump(), 0) << log();
  write_topology(testing_support::kOtherGpu, 32, testing_support::kOtherMinor);
  fake_stock.failures["RESTORE"] = EFAULT;  // must not be reached
  ASSERT_EQ(start(criu::kStageRestore), 0) << log();
  EXPECT_EQ(restore_file(kKfdId), -ENODEV);
  EXPECT_THAT(log(), HasSubstr("restores only where there are as many"));
  end(criu::kStageRestore, -1);
}

TEST_F(Stock, ImagesOfTheStockKernelUseItsIoctlOnANewerKernelToo) {
  ASSERT_EQ(dump(), 0) << log();
  state_.failures.clear();
  state_.calls.clear();
  ASSERT_EQ(start(criu::kStageRestore), 0) << log();
  const Fd kfd(restore_file(kKfdId));
  EXPECT_TRUE(kfd.valid()) << log();
  EXPECT_EQ(state_.calls, (std::vector<std::string>{"QUERY"}));
  end(criu::kStageRestore, 0);
}

}  // namespace
}  // namespace amdgpu_criu::stock
