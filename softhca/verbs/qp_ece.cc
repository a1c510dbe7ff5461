// Enhanced connection establishment: options of a provider that both ends of a connection use
// (ibv_set_ece(3), ibv_query_ece(3)).
//
// As with mlx5, a QP reports the supported options until some are set, then none until
// ibv_modify_qp takes them on the way to RTS, then those that were accepted. Only QPs that use the
// same options understand each other: QueuePair::remote_answers().
#include <cerrno>

#include "softhca/verbs/context.h"
#include "softhca/verbs/qp.h"

namespace softhca {

namespace {

const EceConfig& config_of(const Qp& qp) {
  return Context::of(qp.ex.qp_base.context).device->config->ece;
}

}  // namespace

int query_ece(ibv_qp* handle, ibv_ece* ece) {
  Qp& qp = Qp::of(handle);
  const EceConfig& config = config_of(qp);
  if (config.vendor_id == 0) return EOPNOTSUPP;
  std::lock_guard lock(qp.send_queue.mutex());
  *ece = {config.vendor_id, qp.ece.reported, 0};
  return 0;
}

int set_ece(ibv_qp* handle, ibv_ece* ece) {
  Qp& qp = Qp::of(handle);
  const EceConfig& config = config_of(qp);
  // libibverbs itself refuses vendor 0, which stands for a peer without ECE.
  if (config.vendor_id == 0 || ece->vendor_id == 0) return EOPNOTSUPP;
  if (ece->comp_mask != 0 || ece->vendor_id != config.vendor_id) return EINVAL;
  std::lock_guard lock(qp.send_queue.mutex());
  ece->options &= config.options;
  qp.ece = {0, ece->options};
  return 0;
}

void take_ece(Qp& qp) {
  if (qp.ece.wanted == 0) return;
  qp.ece = {qp.ece.wanted, 0};
  SharedQp& shared = qp.pair.shared();
  SharedLock lock(shared.mutex);
  shared.ece_options = qp.ece.reported;
}

}  // namespace softhca
