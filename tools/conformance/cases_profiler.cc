// C70: events for NCCL's profiler.
#include <cstdlib>
#include <deque>
#include <mutex>
#include <set>
#include <string>

#include "tools/conformance/case.h"
#include "tools/conformance/exchange.h"

namespace gdr::tools {
namespace {
// Later types of NCCL 2.27: an update of an event, and an update that also stops it.
constexpr int kUpdate = 2;
constexpr int kUpdateAndStop = 3;
// NCCL's profiler leaves *event alone where the user did not ask for this kind of event
// (src/plugin/profiler.cc), here for one of so many starts.
constexpr size_t kUnrecorded = 4;

// A profiler that records the events which a plugin reports, and checks that each start has a
// phandle of NCCL and each stop an event that was started. NCCL's callback has no argument for an
// object, so a process has one log.
class ProfilerLog {
 public:
  static ProfilerLog& get() {
    static ProfilerLog log;
    return log;
  }
  static abi::ncclResult_t callback(void** event, int type, void* phandle, int64_t, void*);

  // Returns a phandle for one buffer of one request.
  void* make_phandle() {
    std::lock_guard lock(mutex_);
    void* made = &phandles_.emplace_back();
    valid_phandles_.insert(made);
    return made;
  }

  // What was reported so far.
  struct Record {
    size_t started;
    size_t open;        // events that were started, recorded and not stopped
    std::string error;  // what the plugin has done wrong, or an empty text
  };
  Record record() const {
    std::lock_guard lock(mutex_);
    return {started_, open_.size(), error_};
  }

 private:
  ProfilerLog() = default;
  void note(std::string text) {
    if (error_.empty()) error_ = std::move(text);
  }
  void start(void** event, void* phandle);
  void stop(void* event);

  mutable std::mutex mutex_;
  std::deque<char> phandles_;  // their addresses are the phandles
  std::deque<char> events_;
  std::set<const void*> valid_phandles_;
  std::set<const void*> open_;
  size_t started_ = 0;
  std::string error_;
};

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

void profiler_events(Session& s) {
  s.load();
  s.need(s.contract().profiler, "profiler callback");
  // Where NCCL has a profiler, the user has named its library by this variable, or has one of the
  // default name (src/plugin/profiler.cc). A plugin may look at that.
  setenv("NCCL_PROFILER_PLUGIN", "conformance", 1);
  ProfilerLog& log = ProfilerLog::get();
  InitArguments settings = s.settings();
  settings.profiler = &ProfilerLog::callback;
  s.open(settings);
  auto limit = static_cast<size_t>(s.properties(s.dev()).max_recvs);
  ExchangeStyle style;
  style.phandle = [&log] { return log.make_phandle(); };
  {
    auto connections = open_connections(s, {{0, 1}, {1, 0}});
    std::vector<Group> groups;
    for (size_t i = 0; i < 40; ++i) {
      Group group;
      for (size_t slot = 0; slot <= i % limit; ++slot) {
        group.slots.push_back(Message{s.random().below(100000), 100000, static_cast<int>(slot)});
      }
      groups.push_back(group);
    }
    exchange_all(s, connections, groups, style);
    s.meet("all data has arrived");
  }
  const ProfilerLog::Record record = log.record();
  s.require(record.error.empty(), "{}", record.error);
  s.require(record.open == 0, "{} of {} events were not stopped when both ends were closed",
            record.open, record.started);
  std::string mine = record.started == 0 ? "none" : "";
  for (const std::string& rank : s.allgather("events", mine)) {
    if (rank.empty()) return;
  }
  s.skip("the plugin reports no events to the profiler");
}

}  // namespace

ConformanceCases profiler_cases() {
  return {
      {"C70-profiler-events",
       "each event (v10) is started with the phandle of a request and, where the profiler recorded "
       "it, stopped exactly once",
       2, &profiler_events},
  };
}

}  // namespace gdr::tools
