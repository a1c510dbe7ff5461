// The v6 table: NCCL 2.13 to 2.18 call it directly, later releases through a shim.
#include "plugin/net_adapter.h"

namespace gdr::plugin {
namespace {

abi::ncclResult_t connect_v6(int dev, void* handle, void** send_comm) {
  return connect(nullptr, dev, handle, send_comm);
}

}  // namespace

const abi::ncclNet_v6_t kNetV6 = {
    .name = kName,
    .init = init_table<6>,
    .devices = devices,
    .getProperties = get_properties,
    .listen = listen_without_context,
    .connect = connect_v6,
    .accept = accept,
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
};

}  // namespace gdr::plugin
