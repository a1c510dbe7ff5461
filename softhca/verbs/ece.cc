#include "softhca/verbs/ece.h"

#include <cerrno>

#include "softhca/verbs/context.h"
#include "softhca/verbs/qp.h"

namespace softhca {

namespace {

const EceConfig& config_of(const Qp& qp) {
  return Context::of(qp.ex.qp_base.context).device->config->ece;
}

}  // namespace

int query_ece(Qp& qp, ibv_ece* ece) {
  const EceConfig& config = config_of(qp);
  if (config.vendor_id == 0) return EOPNOTSUPP;
  std::lock_guard lock(qp.send_queue.mutex());
  *ece = {config.vendor_id, qp.ece.reported, 0};
  return 0;
}

int set_ece(Qp& qp, ibv_ece* ece) {
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
