#include "plugin/profiler.h"

#include <dlfcn.h>
#include <strings.h>

#include "plugin/abi/profiler_net_ib.h"

namespace gdr::plugin {
namespace {

abi::ncclProfilerCallback_t callback_of(void* context) {
  return reinterpret_cast<abi::ncclProfilerCallback_t>(context);
}

// NCCL follows the phandle, so it must not be null, and leaves `event` alone where no profiler is
// loaded or the profiler does not want events of network plugins.
void* start(void* context, void* phandle, const transport::ObservedWorkRequest& work) {
  if (phandle == nullptr) return nullptr;
  abi::ncclProfilerNetIbDescr_v1_t description{};
  description.type = abi::kProfileQp;
  description.qp = {work.rail, work.id, work.opcode, static_cast<int>(work.qp_number), work.bytes};
  void* event = nullptr;
  const abi::ncclResult_t result =
      callback_of(context)(&event, abi::kProfilerEventStart, phandle,
                           abi::kProfilerNetTypeIb | abi::kProfilerNetIbVersion, &description);
  return result == abi::ncclSuccess ? event : nullptr;
}

// Only for an event that was started: NCCL hands a null one on to the profiler.
void stop(void* context, void* event) {
  callback_of(context)(&event, abi::kProfilerEventStop, nullptr, 0, nullptr);
}

}  // namespace

transport::WorkRequestObserver profiler_observer(abi::ncclProfilerCallback_t callback) {
  if (callback == nullptr) return {};
  return {start, stop, reinterpret_cast<void*>(callback)};
}

bool profiler_may_be_loaded(const std::string& name) {
  if (!name.empty()) return strcasecmp(name.c_str(), "none") != 0;
  void* library = dlopen("libnccl-profiler.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return false;
  dlclose(library);
  return true;
}

}  // namespace gdr::plugin
