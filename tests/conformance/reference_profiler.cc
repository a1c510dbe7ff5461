#include "tests/conformance/reference_profiler.h"

#include "tests/conformance/defect.h"

namespace gdr::reference {
namespace {
constexpr int64_t kPluginId = 0x52660001;  // names the layout of the data, of which there is none
}  // namespace

void Event::start(void* phandle) {
  abi::ncclProfilerCallback_t profiler = g_profiler.load();
  if (profiler == nullptr && !has_defect("needs_profiler")) return;
  if (has_defect("wrong_phandle")) phandle = this;
  profiler(&handle_, abi::kProfilerEventStart, phandle, kPluginId, nullptr);
  open_ = true;
}

void Event::stop() {
  if (!open_) return;
  open_ = false;
  abi::ncclProfilerCallback_t profiler = g_profiler.load();
  bool recorded = handle_ != nullptr || has_defect("stops_null");
  if (profiler == nullptr || !recorded || has_defect("never_stops")) return;
  profiler(&handle_, abi::kProfilerEventStop, nullptr, 0, nullptr);
  if (has_defect("stops_twice")) {
    profiler(&handle_, abi::kProfilerEventStop, nullptr, 0, nullptr);
  }
}

}  // namespace gdr::reference
