// Hands the work requests of a communicator's connections to the profiler that NCCL has loaded.
#pragma once

#include "plugin/abi/nccl_types.h"
#include "transport/data/work_request_observer.h"

namespace gdr::plugin {

// An observer that starts and stops events of NCCL's profiler, as NCCL's own IB transport would:
// their layout and plugin id are those of plugin/abi/profiler_net_ib.h. `callback` is what init
// received; null: nobody observes. NCCL passes one whether a profiler is loaded or not.
//
// The observer's `parent` is a phandle of isend or irecv.
transport::WorkRequestObserver profiler_observer(abi::ncclProfilerCallback_t callback);

}  // namespace gdr::plugin
