// The v11 table: NCCL 2.28 and 2.29 call it directly, later releases through a shim.
#include "plugin/net_adapter.h"

namespace gdr::plugin {

const abi::ncclNet_v11_t kNetV11 = {
    .name = kName,
    .init = init_communicator<11>,
    .devices = devices,
    .getProperties = get_properties,
    .listen = listen_for,
    .connect = connect_for,
    .accept = accept_host,
    .regMr = reg_mr<size_t>,
    .regMrDmaBuf = reg_mr_dmabuf,
    .deregMr = deregister_memory,
    .isend = isend_observed,
    .irecv = irecv_observed,
    .iflush = iflush,
    .test = test,
    .closeSend = close_send,
    .closeRecv = close_receive,
    .closeListen = close_listen,
    // Device offload only. Core calls irecvConsumed after every receive where it is not null.
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = make_v_device<11>,
    .finalize = close_communicator,
    .setNetAttr = set_attributes,
};

}  // namespace gdr::plugin
