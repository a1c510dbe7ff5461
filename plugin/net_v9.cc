// The v9 table: NCCL 2.24 and 2.25 call it directly, later releases through a shim.
#include "plugin/net_adapter.h"

namespace gdr::plugin {

const abi::ncclNet_v9_t kNetV9 = {
    .name = kName,
    .init = init_table<9>,
    .devices = devices,
    .getProperties = get_properties,
    .listen = listen_without_context,
    .connect = connect_without_context,
    .accept = accept_host,
    .regMr = reg_mr<size_t>,
    .regMrDmaBuf = reg_mr_dmabuf,
    .deregMr = deregister_memory,
    .isend = isend<size_t>,
    .irecv = irecv,
    .iflush = iflush,
    .test = test,
    .closeSend = close_send,
    .closeRecv = close_receive,
    .closeListen = close_listen,
    // Device offload only. Core calls irecvConsumed after every receive where it is not null.
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = make_v_device<9>,
};

}  // namespace gdr::plugin
