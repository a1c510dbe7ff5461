// A profiler that records the events which a plugin reports, and checks that each start has a
// phandle of NCCL and each stop an event that was started.
#pragma once

#include <deque>
#include <mutex>
#include <set>
#include <string>

#include "plugin/abi/nccl_types.h"

namespace gdr::tools {

// NCCL's callback has no argument for an object, so a process has one log.
class ProfilerLog {
 public:
  static ProfilerLog& get();
  static abi::ncclResult_t callback(void** event, int type, void* phandle, int64_t plugin_id,
                                    void* data);

  // Returns a phandle for one buffer of one request.
  void* make_phandle();

  size_t started() const;
  // Returns what the plugin has done wrong so far, or an empty text.
  std::string error() const;
  // Returns the number of events that were started, recorded and not stopped.
  size_t open() const;

 private:
  ProfilerLog() = default;
  void start(void** event, void* phandle);
  void stop(void* event);
  void note(std::string text);

  mutable std::mutex mutex_;
  std::deque<char> phandles_;  // their addresses are the phandles
  std::deque<char> events_;
  std::set<const void*> valid_phandles_;
  std::set<const void*> open_;
  size_t started_ = 0;
  std::string error_;
};

// A profiler that records nothing: what NCCL's does where no profiler is loaded.
abi::ncclResult_t ignore_events(void** event, int type, void* phandle, int64_t plugin_id,
                                void* data);

}  // namespace gdr::tools
