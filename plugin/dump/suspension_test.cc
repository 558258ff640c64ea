// SPDX-License-Identifier: GPL-2.0
// Suspensions of a child that has this process's files, with a kernel made of memfds.
#include "dump/suspension.h"

#include <gmock/gmock.h>
#include <sys/mman.h>

#include <fstream>

#include "base/pipe.h"
#include "tests/child_test.h"

namespace amdgpu_criu::dump {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing_support::kRenderMinor;

constexpr uint64_t kMebibyte = 1 << 20;

class Suspending : public testing_support::ChildTest {
 protected:
  Suspending() : ChildTest(kMebibyte) {}
  void SetUp() override {
    ChildTest::SetUp();
    state_.features |= AMDGPU_CRIU_FEATURE_EVICT;
    auto& bos = state_.renders.front().bos;
    bos.push_back(bos.front());
  }
  void TearDown() override {
    testing_support::hashes_of_gpu = 0;
    ChildTest::TearDown();
  }

  Result<Suspension> suspend() {
    TRY(tree_.add(child_));
    return Suspension::suspend(*api_, host_, tree_, testing_support::make_fake_engine,
                               [&](uint64_t bytes) { announced_ = bytes; });
  }
  Result<uint64_t> compare(const Suspension& suspension) {
    return suspension.compare(*api_, host_, tree_, testing_support::make_fake_engine);
  }
  uint64_t bytes_compared(const Suspension& suspension) {
    const auto compared = compare(suspension);
    EXPECT_TRUE(compared.ok()) << compared.error().message();
    return compared.ok() ? *compared : ~uint64_t{0};
  }
  // The child maps a dma-buf by its descriptor.
  uint64_t hashed_with_dmabuf(int protection) {
    testing_support::hashes_of_gpu = -1;
    const Fd file(memfd_create("object with a name", MFD_CLOEXEC));
    EXPECT_EQ(ftruncate(file.get(), 4096), 0);
    end_child();
    const auto mapping = Mapping::map(4096, protection, MAP_SHARED, file.get(), 0);
    start_child();
    const auto suspension = suspend();
    EXPECT_TRUE(mapping.ok() && suspension.ok());
    return suspension.ok() ? suspension->hashed() : ~uint64_t{0};
  }
  // Another process has what it does not close of the child's descriptors.
  uint64_t hashed_with_another_process(const std::function<void()>& close_some) {
    testing_support::hashes_of_gpu = -1;
    const Pipe ready = std::move(*Pipe::create());
    const pid_t other = fork();
    if (other == 0) {
      close_some();
      (void)!write(ready.write.get(), "", 1);
      ::pause(), _exit(0);
    }
    char byte;
    EXPECT_EQ(read(ready.read.get(), &byte, 1), 1);
    const auto suspension = suspend();
    syscall(SYS_kill, other, SIGKILL);
    waitpid(other, nullptr, 0);
    EXPECT_TRUE(suspension.ok()) << suspension.error().message();
    return suspension.ok() ? suspension->hashed() : ~uint64_t{0};
  }
  void damage(uint64_t object) {
    ASSERT_EQ(pwrite(state_.objects.at(object).get(), "?", 1, kMebibyte / 2 + 7), 1);
  }
  void expect_refused(int code, const char* text) {
    const auto result = suspend();
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code(), code);
    EXPECT_THAT(result.error().message(), HasSubstr(text));
  }
  void expect_refused_before_anything_moves(int code, const char* text) {
    expect_refused(code, text);
    EXPECT_THAT(state_.calls, Not(Contains("EVICT")));
  }
  void set_vram(uint64_t total, uint64_t used) {
    const std::string device = sysfs_.file(formatted("1:{}/device", kRenderMinor));
    std::filesystem::create_directories(device);
    std::ofstream(device + "/mem_info_vram_total") << total;
    std::ofstream(device + "/mem_info_vram_used") << used;
  }

  uint64_t announced_ = 0;
  std::unique_ptr<kernel::Api> api_ = make_fake_api(state_);
  host::Host host_ = host::Host::create(host_config());
  Interruption interruption_{std::chrono::seconds(0)};
  Tree tree_{*api_, host_, interruption_};
};

TEST_F(Suspending, CountsABoOnceThatHasTwoHandles) {
  state_.kept = 4096;
  const auto suspension = suspend();
  ASSERT_TRUE(suspension.ok()) << suspension.error().message();
  EXPECT_EQ(announced_, 3 * kMebibyte);
  EXPECT_EQ(suspension->kept(), 4096u);
  EXPECT_EQ(suspension->bytes(), 3 * kMebibyte - 4096);
  EXPECT_THAT(state_.calls, Contains("EVICT"));
}

TEST_F(Suspending, NeedsAKernelThatMovesTheMemory) {
  state_.features &= ~AMDGPU_CRIU_FEATURE_EVICT;
  expect_refused_before_anything_moves(EOPNOTSUPP, "cannot give back the VRAM");
}

TEST_F(Suspending, RefusesMemoryThatIsSharedWithOthers) {
  state_.outside = {.num_bos = 3, .pid = getpid(), .paused_pid = child_};
  expect_refused_before_anything_moves(EOPNOTSUPP, "shares 3 BOs");
}

TEST_F(Suspending, RefusesMoreThanHostMemoryHolds) {
  state_.renders.front().bos.front().size = uint64_t{1} << 60;
  state_.renders.front().bos.back().size = uint64_t{1} << 60;
  expect_refused_before_anything_moves(ENOMEM, "does not fit into host memory");
}

TEST_F(Suspending, NamesTheLimitOfTheKernel) {
  state_.failures["EVICT"] = ENOMEM;
  expect_refused(ENOMEM, "ttm.pages_limit");
}

TEST_F(Suspending, ResumesOnlyIfThereIsRoom) {
  const auto suspension = suspend();
  ASSERT_TRUE(suspension.ok()) << suspension.error().message();
  EXPECT_TRUE(suspension->check_room(host_).ok()) << "this kernel reports nothing";
  set_vram(4 * kMebibyte, kMebibyte);
  EXPECT_TRUE(suspension->check_room(host_).ok());
  set_vram(4 * kMebibyte, 3 * kMebibyte);
  const Status status = suspension->check_room(host_);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), HasSubstr("it needs 3 MiB of VRAM"));
  EXPECT_THAT(status.error().message(), HasSubstr("others have left 1 MiB"));
}

// The first file is of two processes, the second one of another process.
TEST_F(Suspending, ResumesWithoutRoomForProcessesThatHaveEnded) {
  Fd render = open(testing_support::kRenderPath);
  auto& fake = state_.renders.emplace_back();
  fake.file = std::move(*render.duplicate());
  fake.bos = {testing_support::vram_bo(3, 4 * kMebibyte, 3 * kOffset)};
  add_object(state_, fake.bos.front(), 1);
  state_.kept = kMebibyte / 2;
  const pid_t other = fork();
  if (other == 0) ::pause(), _exit(0);
  render.reset();
  ASSERT_TRUE(tree_.add(other).ok());
  const auto suspension = suspend();
  ASSERT_TRUE(suspension.ok()) << suspension.error().message();
  EXPECT_EQ(announced_, 7 * kMebibyte);
  EXPECT_EQ(suspension->kept(), kMebibyte);
  set_vram(8 * kMebibyte, 5 * kMebibyte);
  EXPECT_THAT(suspension->check_room(host_).error().message(), HasSubstr("it needs 7 MiB"));
  syscall(SYS_kill, other, SIGKILL);
  waitpid(other, nullptr, 0);
  EXPECT_TRUE(suspension->check_room(host_).ok());
  set_vram(8 * kMebibyte, 6 * kMebibyte);
  EXPECT_THAT(suspension->check_room(host_).error().message(), HasSubstr("it needs 3 MiB"))
      << "the other process has kept nothing any more";
  end_child();
  EXPECT_TRUE(suspension->check_room(host_).ok());
  start_child();
}

TEST_F(Suspending, ComparesTheMemoryThatIsBack) {
  testing_support::hashes_of_gpu = -1;
  const auto suspension = suspend();
  ASSERT_TRUE(suspension.ok()) << suspension.error().message();
  EXPECT_EQ(suspension->hashed(), 3 * kMebibyte);
  EXPECT_EQ(bytes_compared(*suspension), 3 * kMebibyte);
}

TEST_F(Suspending, NamesMemoryThatIsNotWhatItWas) {
  testing_support::hashes_of_gpu = -1;
  state_.renders.front().bos[1].handle = 0x4711;
  const auto suspension = suspend();
  ASSERT_TRUE(suspension.ok()) << suspension.error().message();
  damage(2);
  const auto compared = compare(*suspension);
  ASSERT_FALSE(compared.ok());
  EXPECT_EQ(compared.error().code(), EIO);
  EXPECT_THAT(compared.error().message(), HasSubstr("0x4711 of 2097152 bytes differs at 0x80000"));
}

// A process runs while it is suspended, and may write to what it has mapped.
TEST_F(Suspending, DoesNotCompareWhatTheProcessCanWrite) {
  testing_support::hashes_of_gpu = -1;
  end_child();
  const auto read = Mapping::map(4096, PROT_READ, MAP_PRIVATE, render_.get(), kOffset);
  auto write = Mapping::map(4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, render_.get(),
                            2 * kOffset + kMebibyte);
  ASSERT_TRUE(read.ok() && write.ok());
  start_child();
  const auto suspension = suspend();
  ASSERT_TRUE(suspension.ok()) << suspension.error().message();
  EXPECT_EQ(suspension->hashed(), kMebibyte);
  damage(2);
  EXPECT_EQ(bytes_compared(*suspension), kMebibyte);
  damage(1);
  EXPECT_FALSE(compare(*suspension).ok());
}

TEST_F(Suspending, DoesNotCompareWhatOthersHaveGotSince) {
  testing_support::hashes_of_gpu = -1;
  const auto suspension = suspend();
  ASSERT_TRUE(suspension.ok()) << suspension.error().message();
  EXPECT_EQ(suspension->hashed(), 3 * kMebibyte);
  damage(1);
  state_.outside = {.num_bos = 1, .pid = getpid(), .paused_pid = child_};
  EXPECT_EQ(bytes_compared(*suspension), 0u);
  state_.outside = {};
  EXPECT_FALSE(compare(*suspension).ok());
}

TEST_F(Suspending, HashesNothingOfWhichAnotherProcessHasADmabuf) {
  const auto close_renders = [&] { state_.renders.clear(), render_.reset(); };
  EXPECT_EQ(hashed_with_another_process(close_renders), 0u);
}

TEST_F(Suspending, HashesNothingOfAFileThatAnotherProcessHas) {
  EXPECT_EQ(hashed_with_another_process([&] { state_.objects.clear(); }), 0u);
}

TEST_F(Suspending, HashesWhatAnotherProcessHasClosed) {
  const auto close_all = [&] { state_.objects.clear(), state_.renders.clear(), render_.reset(); };
  EXPECT_EQ(hashed_with_another_process(close_all), 3 * kMebibyte);
}

TEST_F(Suspending, HashesNothingIfADmabufIsMappedAsWritable) {
  EXPECT_EQ(hashed_with_dmabuf(PROT_READ | PROT_WRITE), 0u);
}

TEST_F(Suspending, HashesMemoryWithADmabufThatIsOnlyRead) {
  EXPECT_EQ(hashed_with_dmabuf(PROT_READ), 3 * kMebibyte);
}

TEST_F(Suspending, ComparesNothingThatTheGpuDoesNotHash) {
  const auto without = suspend();
  ASSERT_TRUE(without.ok()) << without.error().message();
  EXPECT_EQ(without->hashed(), 0u);
  EXPECT_EQ(bytes_compared(*without), 0u);
}

TEST_F(Suspending, ResumesIfTheGpuNoLongerHashes) {
  testing_support::hashes_of_gpu = 15;  // 12 chunks, and some
  const auto suspension = suspend();
  ASSERT_TRUE(suspension.ok()) << suspension.error().message();
  EXPECT_EQ(suspension->hashed(), 3 * kMebibyte);
  EXPECT_EQ(bytes_compared(*suspension), 0u);
}

TEST_F(Suspending, ReadsTheHostMemoryThatIsAvailable) {
  const std::string path = sysfs_.file("meminfo");
  std::ofstream(path) << "MemTotal:       3000 kB\nMemAvailable:     12 kB\n";
  const auto available = available_host_memory(path);
  ASSERT_TRUE(available.ok());
  EXPECT_EQ(*available, 12u << 10);
  std::ofstream(path) << "MemTotal:       3000 kB\n";
  EXPECT_FALSE(available_host_memory(path).ok());
}

}  // namespace
}  // namespace amdgpu_criu::dump
