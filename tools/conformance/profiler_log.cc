#include "tools/conformance/profiler_log.h"

#include <fmt/format.h>

namespace gdr::tools {
namespace {
// Later types of NCCL 2.27: an update of an event, and an update that also stops it.
constexpr int kUpdate = 2;
constexpr int kUpdateAndStop = 3;
// NCCL's profiler leaves *event alone where the user did not ask for this kind of event
// (src/plugin/profiler.cc), here for one of so many starts.
constexpr size_t kUnrecorded = 4;
}  // namespace

ProfilerLog& ProfilerLog::get() {
  static ProfilerLog log;
  return log;
}

void* ProfilerLog::make_phandle() {
  std::lock_guard lock(mutex_);
  void* made = &phandles_.emplace_back();
  valid_phandles_.insert(made);
  return made;
}

size_t ProfilerLog::started() const {
  std::lock_guard lock(mutex_);
  return started_;
}

std::string ProfilerLog::error() const {
  std::lock_guard lock(mutex_);
  return error_;
}

size_t ProfilerLog::open() const {
  std::lock_guard lock(mutex_);
  return open_.size();
}

void ProfilerLog::note(std::string text) {
  if (error_.empty()) error_ = std::move(text);
}

void ProfilerLog::start(void** event, void* phandle) {
  ++started_;
  if (valid_phandles_.count(phandle) == 0) {
    note(fmt::format("an event was started with phandle {}, which no request has", phandle));
  }
  if (event == nullptr) return note("an event was started with a null pointer for its handle");
  if (started_ % kUnrecorded == 0) return;
  *event = &events_.emplace_back();
  open_.insert(*event);
}

void ProfilerLog::stop(void* event) {
  if (event == nullptr) return note("an event was stopped that the profiler did not record");
  if (open_.erase(event) == 0) note("an event was stopped twice, or was never started");
}

abi::ncclResult_t ProfilerLog::callback(void** event, int type, void* phandle, int64_t, void*) {
  ProfilerLog& log = get();
  std::lock_guard lock(log.mutex_);
  switch (type) {
    case abi::kProfilerEventStart:
      log.start(event, phandle);
      break;
    case abi::kProfilerEventStop:
    case kUpdateAndStop:
      log.stop(event == nullptr ? nullptr : *event);
      break;
    case kUpdate:
      break;
    default:
      log.note(fmt::format("the profiler was called with type {}", type));
  }
  return abi::ncclSuccess;
}

abi::ncclResult_t ignore_events(void**, int, void*, int64_t, void*) { return abi::ncclSuccess; }

}  // namespace gdr::tools
