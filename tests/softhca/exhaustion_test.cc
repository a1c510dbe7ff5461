// Memory or threads run out inside the plugin, at every place in turn: no exception may leave a
// table entry. The plugin is linked in, so that its allocations and threads can be made to fail;
// the software HCA has a C++ runtime of its own and is not affected.
#include <dlfcn.h>
#include <execinfo.h>
#include <gmock/gmock.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#include "plugin/tables.h"
#include "tools/net/net.h"

namespace {

// Lets the calling thread succeed so many times more, then fail once. Negative: never.
thread_local long g_allocations_left = -1;
thread_local long g_threads_left = -1;

// Lets no other thread have memory while it is set, and counts how often one wanted some.
std::atomic<bool> g_others_starve{false};
std::atomic<long> g_starved{0};
thread_local bool g_is_other = true;  // of a thread that is not the test's

bool runs_out(long* left) { return *left >= 0 && (*left)-- == 0; }

void* allocate(size_t bytes, size_t alignment) {
  if (runs_out(&g_allocations_left)) throw std::bad_alloc();
  if (g_others_starve && g_is_other) {
    ++g_starved;
    throw std::bad_alloc();
  }
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, std::max<size_t>(bytes, 1)) != 0) throw std::bad_alloc();
  return memory;
}

}  // namespace

// The library's other forms call these.
void* operator new(size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }

// The runtime's std::thread calls this one.
extern "C" __attribute__((visibility("default"))) int pthread_create(
    pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto real = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (runs_out(&g_threads_left)) return EAGAIN;
  return real(thread, attributes, start, argument);
}

namespace gdr {
namespace {

using abi::ncclSuccess;
using ::testing::HasSubstr;

// The table that NCCL prefers. Its converter allocates nothing.
tools::Net& net() {
  static const std::unique_ptr<tools::Net> made =
      tools::make_net(tools::kNewestTable, &plugin::kNetV12);
  return *made;
}

// Does not allocate, as it is called where there is no memory.
std::array<char, 4096> g_last_warning;

void log_line(abi::ncclDebugLogLevel level, unsigned long, const char*, int, const char* format,
              ...) {
  if (level != abi::kLogWarn) return;
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(g_last_warning.data(), g_last_warning.size(), format, arguments);
  va_end(arguments);
}

// The allocation that fails, from the first on: one by one, then in growing steps.
long next(long n) { return n < 200 ? n + 1 : n + n / 16; }

// Runs `call` with the n-th allocation failing, if it makes that many. Returns whether it did.
template <class Call>
bool fails_at(long n, const Call& call) {
  g_allocations_left = n;
  abi::ncclResult_t result = call();
  bool failed = g_allocations_left < 0;
  g_allocations_left = -1;
  if (result != ncclSuccess) {
    EXPECT_TRUE(failed) << g_last_warning.data();
    EXPECT_EQ(result, abi::ncclSystemError) << "allocation " << n;
    EXPECT_THAT(g_last_warning.data(), HasSubstr("out of memory. Fix: raise"));
  }
  return failed;
}

abi::ncclResult_t init_net(void** context) {
  tools::InitArguments settings;
  settings.logger = log_line;
  settings.id = 0x1234;
  return net().init(settings, context);
}

class Exhaustion : public ::testing::Test {
 protected:
  // GoogleTest runs the tests in the order of this file, so the first ones see no plugin.
  void SetUp() override {
    g_last_warning[0] = '\0';
    net();  // is made while there is memory
  }

  void TearDown() override {
    if (!initialized_) return;
    EXPECT_EQ(net().finalize(context_), ncclSuccess);
  }

  void init() {
    ASSERT_EQ(init_net(&context_), ncclSuccess) << g_last_warning.data();
    initialized_ = true;
  }

  void listen() { ASSERT_EQ(net().listen(context_, 0, handle_, &listener_), ncclSuccess); }

  // Calls connect and accept in turn until both ends are there or one fails.
  abi::ncclResult_t connect() {
    while (sender_ == nullptr || receiver_ == nullptr) {
      abi::ncclResult_t result = ncclSuccess;
      if (sender_ == nullptr) result = net().connect(context_, 0, handle_, &sender_);
      if (result != ncclSuccess) return result;
      if (receiver_ == nullptr) result = net().accept(listener_, &receiver_);
      if (result != ncclSuccess) return result;
    }
    return ncclSuccess;
  }

  abi::ncclResult_t close() {
    EXPECT_EQ(net().close_send(std::exchange(sender_, nullptr)), ncclSuccess);
    EXPECT_EQ(net().close_recv(std::exchange(receiver_, nullptr)), ncclSuccess);
    EXPECT_EQ(net().close_listen(std::exchange(listener_, nullptr)), ncclSuccess);
    return ncclSuccess;
  }

  bool initialized_ = false;
  void* context_ = nullptr;
  char handle_[abi::kHandleMaxBytes] = {};
  void* listener_ = nullptr;
  void* sender_ = nullptr;
  void* receiver_ = nullptr;
  alignas(4096) char buffer_[4096] = {};
};

TEST_F(Exhaustion, ThreadsRunOutInInit_IsAnErrorThatNamesTheLimitAndLeavesNoSignalBlocked) {
  g_threads_left = 0;
  abi::ncclResult_t result = init_net(&context_);
  g_threads_left = -1;
  EXPECT_EQ(context_, nullptr);
  EXPECT_EQ(result, abi::ncclSystemError);
  EXPECT_THAT(g_last_warning.data(), HasSubstr("init: "));
  EXPECT_THAT(g_last_warning.data(), HasSubstr("Fix: raise the limit of threads"));
  // They are blocked while the thread is made, which is to inherit that.
  sigset_t blocked;
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, nullptr, &blocked), 0);
  EXPECT_EQ(sigismember(&blocked, SIGINT), 0);
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 0);
}

// How an init ended in a process of its own, since one that succeeds cannot be undone.
enum InitOutcome { kUndisturbed, kFailed, kWentWithout, kWrongResult, kEndedByRuntime };

// GCC 12's std::filesystem::directory_iterator itself ends the process where it gets no memory.
void exit_if_the_runtime_gave_up() {
  void* frames[64];
  const int count = backtrace(frames, 64);
  for (int i = 0; i < count; ++i) {
    Dl_info symbol;
    if (dladdr(frames[i], &symbol) != 0 && symbol.dli_sname != nullptr &&
        std::strstr(symbol.dli_sname, "directory_iterator") != nullptr) {
      _exit(kEndedByRuntime);
    }
  }
  std::abort();
}

InitOutcome init_outcome(long n) {
  g_allocations_left = n;
  void* context = nullptr;
  abi::ncclResult_t result = init_net(&context);
  bool disturbed = g_allocations_left < 0;
  g_allocations_left = -1;
  if ((result == ncclSuccess) != (context != nullptr)) return kWrongResult;
  if (result == ncclSuccess) return disturbed ? kWentWithout : kUndisturbed;
  return disturbed && result == abi::ncclSystemError ? kFailed : kWrongResult;
}

int status_of_child(long n) {
  const pid_t child = fork();
  if (child == 0) {
    std::set_terminate(exit_if_the_runtime_gave_up);
    _exit(init_outcome(n));
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

// Some allocations are of no consequence, such as those of the standard library's file streams,
// which keep an exception to themselves.
TEST_F(Exhaustion, MemoryRunsOutInInit_IsAnError) {
  int failed = 0;
  for (long n = 0;; n = next(n)) {
    const int status = status_of_child(n);
    ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status) << " at " << n;
    ASSERT_NE(WEXITSTATUS(status), kWrongResult) << "allocation " << n;
    failed += WEXITSTATUS(status) == kFailed;
    if (WEXITSTATUS(status) == kUndisturbed) break;
  }
  EXPECT_GT(failed, 100);
}

TEST_F(Exhaustion, MemoryRunsOutInTheInitOfALaterCommunicator_IsAnErrorWithoutContext) {
  init();
  long n = 0;
  for (bool failed = true; failed; n = next(n)) {
    void* later = nullptr;
    failed = fails_at(n, [&] { return init_net(&later); });
    EXPECT_EQ(later == nullptr, failed) << "allocation " << n;
    EXPECT_EQ(net().finalize(later), ncclSuccess);
  }
  EXPECT_GT(n, 3);
}

TEST_F(Exhaustion, MemoryRunsOutWhileListening_IsAnError) {
  init();
  long n = 0;
  for (bool failed = true; failed; n = next(n)) {
    failed = fails_at(n, [&] { return net().listen(context_, 0, handle_, &listener_); });
    EXPECT_EQ(net().close_listen(std::exchange(listener_, nullptr)), ncclSuccess);
  }
  EXPECT_GT(n, 1);
}

TEST_F(Exhaustion, MemoryRunsOutWhileConnecting_IsAnError) {
  init();
  long n = 0;
  for (bool failed = true; failed; n = next(n)) {
    listen();
    failed = fails_at(n, [&] { return connect(); });
    close();
  }
  EXPECT_GT(n, 50);
}

TEST_F(Exhaustion, MemoryRunsOutWhileRegistering_IsAnError) {
  init();
  listen();
  ASSERT_EQ(connect(), ncclSuccess);
  long n = 0;
  for (bool failed = true; failed; n = next(n)) {
    void* memory = nullptr;
    failed = fails_at(
        n, [&] { return net().reg_mr(sender_, buffer_, sizeof(buffer_), abi::kPtrHost, &memory); });
    EXPECT_EQ(net().dereg_mr(sender_, memory), ncclSuccess);
  }
  EXPECT_GT(n, 2);
  close();
}

// The watcher's thread looks at every connection twice a second.
TEST_F(Exhaustion, MemoryRunsOutInTheWatcher_EndsNothing) {
  init();
  listen();
  ASSERT_EQ(connect(), ncclSuccess);
  g_is_other = false;
  g_starved = 0;
  g_others_starve = true;
  while (g_starved < 3) usleep(1000);
  g_others_starve = false;
  close();
  listen();
  EXPECT_EQ(connect(), ncclSuccess);
  close();
}

TEST_F(Exhaustion, MemoryRunsOutWhileClosing_StillCloses) {
  init();
  long n = 0;
  for (bool failed = true; failed; n = next(n)) {
    listen();
    ASSERT_EQ(connect(), ncclSuccess);
    failed = fails_at(n, [&] { return close(); });
  }
}

}  // namespace
}  // namespace gdr
