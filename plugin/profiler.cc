#include "plugin/profiler.h"

#include <dlfcn.h>
#include <strings.h>

#include <string_view>

#include "base/loaded_library.h"
#include "plugin/abi/profiler_net_ib.h"

namespace gdr::plugin {
namespace {

constexpr int kTableOfNccl227 = 10;
constexpr int kNccl227 = 22700;
constexpr int kNccl228 = 22800;

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

// NCCL 2.27's phandle is a pointer to {the step's event, the step's arguments}. Its callback
// follows the second without a check, and sets it only where the profiler has an event of the
// operation (ncclProfilerStartSendProxyStepEvent in src/misc/profiler.cc).
void* start_if_complete(void* context, void* phandle, const transport::ObservedWorkRequest& work) {
  if (phandle == nullptr || static_cast<void**>(phandle)[1] == nullptr) return nullptr;
  return start(context, phandle, work);
}

// What ncclGetVersion of the library that contains `address` returns, 22705 for 2.27.5; 0 where it
// has none. An address in the program itself is looked up there.
int version_of_library(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0) return 0;
  void* library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) library = dlopen(nullptr, RTLD_LAZY);  // the program itself
  if (library == nullptr) return 0;
  auto* get_version = reinterpret_cast<int (*)(int*)>(dlsym(library, "ncclGetVersion"));
  int version = 0;
  if (get_version != nullptr && get_version(&version) != abi::ncclSuccess) version = 0;
  dlclose(library);
  return version;
}

bool is_default_profiler(std::string_view file_name) { return file_name == "libnccl-profiler.so"; }

// Only for an event that was started: NCCL hands a null one on to the profiler.
void stop(void* context, void* event) {
  callback_of(context)(&event, abi::kProfilerEventStop, nullptr, 0, nullptr);
}

}  // namespace

transport::WorkRequestObserver profiler_observer(abi::ncclProfilerCallback_t callback,
                                                 int table_version) {
  if (callback == nullptr) return {};
  transport::WorkRequestObserver observer{start, stop, reinterpret_cast<void*>(callback)};
  if (table_version > kTableOfNccl227) return observer;
  const int version = version_of_library(reinterpret_cast<const void*>(callback));
  if (version == 0) return {};
  if (version >= kNccl227 && version < kNccl228) observer.posted = start_if_complete;
  return observer;
}

// Asked for each connection.
bool profiler_may_be_loaded(const std::string& name) {
  if (!name.empty()) return strcasecmp(name.c_str(), "none") != 0;
  return has_loaded(is_default_profiler);
}

}  // namespace gdr::plugin
