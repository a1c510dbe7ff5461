// C08: the plugin's library is unloaded and loaded again.
#include <thread>

#include "tools/conformance/case.h"
#include "tools/conformance/lone_message.h"

namespace gdr::tools {
namespace {
// One life of the library: NCCL loads it for its first communicator and unloads it after the last
// one (src/plugin/net.cc, src/plugin/plugin_open.cc).
void live_once(Session& s, uint64_t number, bool with_traffic) {
  auto plugin = Plugin::load(s.options().plugin, s.options().table);
  s.require(plugin.has_value(), "round {}: {}", number, plugin ? "" : plugin.error().text);
  Net& net = plugin->net();
  void* context = nullptr;
  s.must("init", [&] { return net.init(s.settings(), &context); });
  int count = 0;
  s.must("devices", [&] { return net.devices(&count); });
  s.require(s.dev() < count, "round {}: devices() reports {}", number, count);
  if (with_traffic) {
    std::string error = lone_message(net, context, s.dev(), number, s.options().timeout_seconds);
    s.require(error.empty(), "round {}: {}", number, error);
  }
  s.must("finalize", [&] { return net.finalize(context); });
}

// A thread of the plugin that survives its library crashes as soon as it runs. The short lives find
// one that has not begun to run.
void unload_and_reload(Session& s) {
  constexpr uint64_t kRounds = 12;
  for (uint64_t i = 0; i < kRounds; ++i) {
    live_once(s, i, i % 3 == 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}
}  // namespace

ConformanceCases reload_cases() {
  return {
      {"C08-unload-and-reload",
       "the library may be unloaded after the last communicator, and works when loaded again", 1,
       &unload_and_reload},
  };
}

}  // namespace gdr::tools
