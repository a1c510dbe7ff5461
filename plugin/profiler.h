// Hands the work requests of a communicator's connections to the profiler that NCCL has loaded.
#pragma once

#include <string>

#include "plugin/abi/nccl_types.h"
#include "transport/pairs/connection_options.h"

namespace gdr::plugin {

// An observer that starts and stops events of NCCL's profiler, as NCCL's own IB transport would:
// their layout and plugin id are those of plugin/abi/profiler_net_ib.h. `callback` is what init of
// the table of that version received; null: nobody observes. NCCL passes one whether a profiler is
// loaded or not.
//
// The observer's `parent` is a phandle of isend or irecv. NCCL 2.27 follows a pointer in it that is
// null where the profiler wants no events of the proxy, so such a phandle is not reported. Where
// v10 is in use and the release of NCCL cannot be found out, nobody observes.
transport::WorkRequestObserver profiler_observer(abi::ncclProfilerCallback_t callback,
                                                 int table_version);

// Whether NCCL may have loaded a profiler. It loads the one that NCCL_PROFILER_PLUGIN names,
// `name`, or libnccl-profiler.so where that is "", and does so before it makes any connection
// (ncclProfilerPluginLoad in NCCL's src/plugin/profiler.cc).
bool profiler_may_be_loaded(const std::string& name);

}  // namespace gdr::plugin
