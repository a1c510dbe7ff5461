#include "transport/data/flush.h"

#include <cstdlib>
#include <utility>

namespace gdr::transport {

Result<Flush> Flush::create(const RailEnd& end, uint32_t rail, int depth) {
  Flush flush(rail, depth);
  if (Status made = flush.make(end); !made) return forward_error(made);
  return flush;
}

Status Flush::make(const RailEnd& end) {
  const HcaContext& hca = *end.device().hca;
  Pages<uint64_t> target = map_pages<uint64_t>(sizeof(uint64_t));
  Result<verbs::UniqueMr> mr = register_block(hca, target.get(), sizeof(uint64_t));
  if (!mr) return forward_error(mr);
  Result<QueuePair> pair = create_queue_pair(end.device(), end.cq(), QueueDepths{depth_, 1, 0});
  if (!pair) return forward_error(pair);
  pair->rail = rail();
  pair_ = std::move(*pair);
  target_mr_ = std::move(*mr);
  target_ = std::move(target);
  return {};
}

std::array<StateChange, 3> Flush::changes_to_ready(const RailEnd& end,
                                                   const wire::RailAddress& address,
                                                   ServiceClass service,
                                                   const ConnectionOptions& options) const {
  ibv_qp* qp = pair_.qp.get();
  const QueuePairPath to_itself{&address, &address, qp->qp_num, 0, 0, service};
  return {to_init(end.device(), qp, options), to_ready_to_receive(end.device(), qp, to_itself),
          to_ready_to_send(end.device(), qp, to_itself, options)};
}

void Flush::connect(const RailEnd& end, ServiceClass service, const ConnectionOptions& options,
                    bool optional, StateChanges* changes) const {
  for (StateChange& change : changes_to_ready(end, end.address(), service, options)) {
    change.optional = optional;
    change.rail = static_cast<int>(pair_.rail);
    changes->add(std::move(change));
  }
}

Status Flush::reconnect(const RailEnd& end, ServiceClass service,
                        const ConnectionOptions& options) {
  if (pair_.qp == nullptr) {
    if (Status made = make(end); !made) return made;
  }
  Result<wire::RailAddress> address = end.present_address(options);
  if (!address) return forward_error(address);
  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_RESET;
  const int err = end.device().hca->api().modify_qp(pair_.qp.get(), &reset, IBV_QP_STATE);
  if (err != 0) return fail_errno(Code::kSystem, "moving it to RESET failed", std::abs(err));
  StateChanges made;
  for (StateChange& change : changes_to_ready(end, *address, service, options)) {
    made.add(std::move(change));
  }
  ConnectionOptions at_once = options;
  at_once.modify_retries = 0;  // so that each change is made, or has failed
  Result<bool> connected = made.step(at_once);
  if (!connected) return forward_error(connected);
  return {};
}

int Flush::post(const void* address, const MemoryHandle& memory, uint64_t wr_id) {
  ibv_sge sge{reinterpret_cast<uint64_t>(target_.get()), 1, target_mr_->lkey};
  ibv_send_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_READ;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(address);
  wr.wr.rdma.rkey = memory.keys[pair_.rail].rkey;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(pair_.qp.get(), &wr, &bad);
}

}  // namespace gdr::transport
