// The v9 table: NCCL 2.24 and 2.25 call it directly, later releases through a shim.
#include "plugin/net_adapter.h"

namespace gdr::plugin {
namespace {

abi::ncclResult_t init_v9(abi::ncclDebugLogger_t logger) { return init(9, logger); }

abi::ncclResult_t get_properties_v9(int dev, abi::ncclNetProperties_v9_t* props) {
  return get_properties(dev, props, /*can_force_flush=*/true,
                        [dev](const DeviceProperties& device, abi::ncclNetProperties_v9_t* filled) {
                          fill_common(device, filled);
                          fill_no_offload(filled);
                          fill_sizes(device, dev, filled);
                        });
}

}  // namespace

const abi::ncclNet_v9_t kNetV9 = {
    .name = kName,
    .init = init_v9,
    .devices = devices,
    .getProperties = get_properties_v9,
    .listen = listen_without_context,
    .connect = connect_without_context,
    .accept = accept_host,
    .regMr = reg_mr<size_t>,
    .regMrDmaBuf = reg_mr_dmabuf,
    .deregMr = deregister_memory,
    .isend = isend<size_t>,
    .irecv = irecv<size_t>,
    .iflush = iflush,
    .test = test,
    .closeSend = close_send,
    .closeRecv = close_receive,
    .closeListen = close_listen,
    // Device offload only. Core calls irecvConsumed after every receive where it is not null.
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    // Core merges ports of a card where this is not null.
    .makeVDevice = nullptr,
};

}  // namespace gdr::plugin
