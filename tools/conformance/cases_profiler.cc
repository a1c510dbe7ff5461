// C7x: events for NCCL's profiler.
#include <cstdlib>

#include "tools/conformance/case.h"
#include "tools/conformance/exchange.h"
#include "tools/conformance/profiler_log.h"

namespace gdr::tools {
namespace {
void profiler_events(Session& s) {
  s.load();
  if (!s.contract().profiler) {
    s.skip(fmt::format("version {} has no profiler callback", s.contract().version));
  }
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
  s.require(log.error().empty(), "{}", log.error());
  s.require(log.open() == 0, "{} of {} events were not stopped when both ends were closed",
            log.open(), log.started());
  std::string mine = log.started() == 0 ? "none" : "";
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
