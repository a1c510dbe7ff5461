// How the fake reports a broken rule, and the switches with which a test steers it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

namespace fake_cuda {

// Prints "fake libcuda: <call>: <text>" and aborts.
[[noreturn]] void violation(const char* call, const char* text);

// Returns an integer from the process environment, or the default if the variable is unset.
unsigned environment(const char* name, unsigned otherwise);

// Blocks the threads that pass it while it is closed.
class Gate {
 public:
  void set_closed(bool closed);
  void pass();

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
  std::atomic<bool> pcie_mapping{true};
  std::atomic<unsigned long> pcie_mappings{0};
  std::atomic<unsigned> copy_delay_us{environment("FAKE_CUDA_COPY_DELAY_US", 0)};
  std::atomic<unsigned long> stream_operations{0};
  const bool dmabuf = environment("FAKE_CUDA_DMABUF", 1) != 0;
  const bool stream_memops = environment("FAKE_CUDA_STREAM_MEMOPS", 1) != 0;
};

Switches& switches();

}  // namespace fake_cuda
