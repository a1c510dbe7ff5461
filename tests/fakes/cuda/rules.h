// How the fake reports a broken rule, and the switches with which a test steers it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace fake_cuda {

// Prints "fake libcuda: <call>: <text>" and aborts.
[[noreturn]] inline void violation(const char* call, const char* text) {
  std::fprintf(stderr, "fake libcuda: %s: %s\n", call, text);
  std::abort();
}

// Returns an integer from the process environment, or the default if the variable is unset.
inline unsigned environment(const char* name, unsigned otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

// Blocks the threads that pass it while it is closed.
class Gate {
 public:
  void set_closed(bool closed) {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = closed;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !closed_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
};

struct Switches {
  Gate kernels;  // closed while a kernel "runs"
  Gate copies;
  std::atomic<bool> initialized{false};
  std::atomic<bool> shut_down{false};
  std::atomic<bool> capturing{false};
  std::atomic<bool> virtual_memory{false};
  std::atomic<unsigned> copy_delay_us{0};
  const bool dmabuf = environment("FAKE_CUDA_DMABUF", 1) != 0;
  const bool stream_memops = environment("FAKE_CUDA_STREAM_MEMOPS", 1) != 0;
};

inline Switches& switches() {
  static auto* instance = new Switches;  // outlives the streams' threads
  return *instance;
}

}  // namespace fake_cuda
