// C9x: what no version of the contract asks for, but a careful plugin survives: calls that NCCL's
// sources never make, and defects of NCCL releases. They run with --beyond only.
#include <cstring>

#include "tools/conformance/case.h"
#include "tools/conformance/exchange.h"

namespace gdr::tools {
namespace {
// NCCL always passes a callback to init, and phandles that are not null (src/plugin/net.cc and
// src/transport/net.cc of 2.26 to 2.30). Its own back ends pass none to its InfiniBand transport.
void no_profiler(Session& s) {
  s.load();
  if (!s.contract().profiler) {
    s.skip(fmt::format("version {} has no profiler callback", s.contract().version));
  }
  InitArguments settings = s.settings();
  settings.profiler = nullptr;
  s.open(settings);
  ExchangeStyle style;
  style.phandle = [] { return nullptr; };
  auto connections = open_connections(s, {{0, 1}, {1, 0}});
  exchange_all(s, connections, {single(10), single(0), single(100000)}, style);
  s.meet("all data has arrived");
}

// Host RMA of NCCL 2.29 and later connects through its internal back end with the context of the
// network plugin, and from 2.30 on writes the traffic class into its first four bytes
// (src/rma/rma_proxy.cc, ncclIbSetTrafficClass). A plugin that has something else there loses it.
void overwritten_context(Session& s) {
  s.open();
  if (!s.contract().contexts) {
    s.skip(fmt::format("version {} has no contexts", s.contract().version));
  }
  if (s.context() == nullptr) s.skip("the plugin's context is null");
  exchange(s, open_connection(s, 0, 0), {single(1000)});
  for (int value : {1, abi::kTrafficClassUndefined, 0x5a5a5a5a}) {
    std::memcpy(s.context(), &value, sizeof(value));
    auto connections = open_connections(s, {{0, 0}});
    exchange_all(s, connections, {single(1000), single(50000)});
    if (s.net().has(NetEntry::kSetNetAttr)) {
      s.must("setNetAttr", [&] { return s.net().set_net_attr(s.context(), NetAttributes{}); });
    }
  }
}
}  // namespace

ConformanceCases beyond_cases() {
  ConformanceCases cases{
      {"C90-no-profiler", "init without a profiler callback (v10), and null phandles, do not crash",
       2, &no_profiler},
      {"C91-overwritten-context",
       "a context (v11) works after NCCL's host RMA has overwritten its first four bytes", 1,
       &overwritten_context},
  };
  for (ConformanceCase& one : cases) one.beyond = true;
  return cases;
}

}  // namespace gdr::tools
