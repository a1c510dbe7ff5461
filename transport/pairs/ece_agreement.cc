#include "transport/pairs/ece_agreement.h"

#include <cerrno>

#include "base/log.h"

namespace gdr::transport {
namespace {

std::string text_of(const wire::Ece& ece) {
  return "vendor " + hex(ece.vendor_id) + " options " + hex(ece.options);
}

// Returns an errno value; the pair has options only where it is 0.
int query(const verbs::Api& api, QueuePair* pair) {
  ibv_ece ece{};
  const int err = api.query_ece(pair->qp.get(), &ece);
  pair->ece.reset();
  if (err == 0) pair->ece = wire::Ece{ece.vendor_id, ece.options, ece.comp_mask};
  return err;
}

int set(const verbs::Api& api, ibv_qp* qp, const wire::Ece& from) {
  ibv_ece ece{from.vendor_id, from.options, from.comp_mask};
  return api.set_ece(qp, &ece);
}

Status fail_ece(const std::string& what, const ibv_qp* qp, int err) {
  return fail_errno(Code::kSystem,
                    what + " on QP " + hex(qp->qp_num) + " on " + qp->context->device->name +
                        " failed. Fix: NCCL_IB_ECE_ENABLE=0 on all nodes does without",
                    err);
}

}  // namespace

void query_offered_ece(const verbs::Api& api, QueuePair* pair) { (void)query(api, pair); }

void set_offered_ece(const verbs::Api& api, const wire::QpAddress& sender, QueuePair* pair) {
  if (sender.ece_supported == 0) return;
  const ibv_qp* qp = pair->qp.get();
  const int err = set(api, pair->qp.get(), sender.ece);
  if (err == 0) {
    pair->ece = sender.ece;
  } else if (err != EOPNOTSUPP) {
    // Such as an HCA of another vendor. NCCL's net_ib fails then; the QP works without.
    GDR_INFO(log::kNet, "QP 0x%x on %s goes without ECE: it does not take %s (errno %d)",
             qp->qp_num, qp->context->device->name, text_of(sender.ece).c_str(), err);
  }
}

Status query_accepted_ece(const verbs::Api& api, QueuePair* pair) {
  if (!pair->ece) return {};
  const int err = query(api, pair);
  if (err == 0 || err == EOPNOTSUPP) return {};
  return fail_ece("querying the ECE options that were accepted", pair->qp.get(), err);
}

void take_accepted_ece(const wire::QpAddress& receiver, QueuePair* pair) {
  const bool is_agreed = pair->ece && receiver.ece_supported != 0;
  pair->ece = is_agreed ? std::optional(receiver.ece) : std::nullopt;
}

// The other end uses these options. EOPNOTSUPP: of an HCA without ECE whose driver answers queries
// all the same, with options of 0 (mlx5), which is what the receiver has accepted.
Status set_agreed_ece(const verbs::Api& api, QueuePair* pair) {
  if (!pair->ece) return {};
  const int err = set(api, pair->qp.get(), *pair->ece);
  if (err == EOPNOTSUPP) pair->ece.reset();
  if (err == 0 || err == EOPNOTSUPP) return {};
  return fail_ece(
      "setting the ECE options that the receiver has accepted (" + text_of(*pair->ece) + ")",
      pair->qp.get(), err);
}

std::string ece_text(const RailSet& rails) {
  for (size_t i = 0; i < rails.pair_count(); ++i) {
    if (rails.pair(i).ece) return ", ECE " + text_of(*rails.pair(i).ece);
  }
  return "";
}

}  // namespace gdr::transport
