// The v7 table: NCCL 2.19 calls it directly, later releases through a shim.
#include "plugin/net_adapter.h"

namespace gdr::plugin {

const abi::ncclNet_v7_t kNetV7 = {
    .name = kName,
    .init = init_table<7>,
    .devices = devices,
    .getProperties = get_properties,
    .listen = listen_without_context,
    .connect = connect_without_context,
    .accept = accept_host,
    .regMr = reg_mr<int>,
    .regMrDmaBuf = reg_mr_dmabuf,
    .deregMr = deregister_memory,
    .isend = isend<int>,
    .irecv = irecv,
    .iflush = iflush,
    .test = test,
    .closeSend = close_send,
    .closeRecv = close_receive,
    .closeListen = close_listen,
    // Device offload only. Core calls irecvConsumed after every receive where it is not null.
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
};

}  // namespace gdr::plugin
