// Events of the reference plugin for NCCL's profiler: one per send and per buffer of a receive.
#pragma once

#include <atomic>

#include "plugin/abi/nccl_types.h"

namespace gdr::reference {

// The callback of the last init; null before v10. A process has one profiler.
inline std::atomic<abi::ncclProfilerCallback_t> g_profiler{nullptr};

class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { stop(); }

  void start(void* phandle);
  void stop();

 private:
  void* handle_ = nullptr;  // null where the profiler does not record the event
  bool open_ = false;
};

}  // namespace gdr::reference
