#include "transport/pairs/ece_agreement.h"

#include <cerrno>

#include "base/log.h"

namespace gdr::transport {
namespace {

std::string text_of(const ibv_ece& ece) {
  return "vendor " + hex(ece.vendor_id) + " options " + hex(ece.options);
}

// Returns nothing where the HCA knows no ECE, with the errno value in *err.
std::optional<ibv_ece> query(const verbs::Api& api, ibv_qp* qp, int* err) {
  ibv_ece ece{};
  *err = api.query_ece(qp, &ece);
  if (*err != 0) return std::nullopt;
  return ece;
}

int set(const verbs::Api& api, ibv_qp* qp, const wire::Ece& from) {
  ibv_ece ece{from.vendor_id, from.options, from.comp_mask};
  return api.set_ece(qp, &ece);
}

// The other end uses these options.
Status set_failed(const ibv_ece& ece, const ibv_qp* qp, int err) {
  return fail_errno(Code::kSystem,
                    "setting the ECE options that the receiver has accepted (" + text_of(ece) +
                        ") on QP " + hex(qp->qp_num) + " on " + qp->context->device->name +
                        " failed. Fix: NCCL_IB_ECE_ENABLE=0 on all nodes does without",
                    err);
}

wire::Ece to_wire(const ibv_ece& ece) { return {ece.vendor_id, ece.options, ece.comp_mask}; }

ibv_ece from_wire(const wire::Ece& ece) { return {ece.vendor_id, ece.options, ece.comp_mask}; }

}  // namespace

std::optional<ibv_ece>& EceAgreement::at(size_t index) {
  if (index >= by_pair_.size()) by_pair_.resize(index + 1);
  return by_pair_[index];
}

void EceAgreement::query_offer(size_t index, const verbs::Api& api, ibv_qp* qp) {
  int err = 0;
  at(index) = query(api, qp, &err);
}

void EceAgreement::set_offer(size_t index, const verbs::Api& api, ibv_qp* qp,
                             const wire::QpAddress& sender) {
  if (sender.ece_supported == 0) return;
  const int err = set(api, qp, sender.ece);
  if (err == 0) {
    at(index) = from_wire(sender.ece);
  } else if (err != EOPNOTSUPP) {
    // Such as an HCA of another vendor. NCCL's net_ib fails then; the QP works without.
    GDR_INFO(log::kNet, "QP 0x%x on %s goes without ECE: it does not take %s (errno %d)",
             qp->qp_num, qp->context->device->name, text_of(from_wire(sender.ece)).c_str(), err);
  }
}

Status EceAgreement::query_accepted(size_t index, const verbs::Api& api, ibv_qp* qp) {
  if (!at(index)) return {};
  int err = 0;
  at(index) = query(api, qp, &err);
  if (err == 0 || err == EOPNOTSUPP) return {};
  return fail_errno(Code::kSystem,
                    "querying the ECE options that QP " + hex(qp->qp_num) + " on " +
                        qp->context->device->name +
                        " has accepted failed. Fix: NCCL_IB_ECE_ENABLE=0 on all nodes does without",
                    err);
}

Status EceAgreement::set_again(size_t index, const verbs::Api& api, ibv_qp* qp) {
  const std::optional<ibv_ece>& agreed = at(index);
  if (!agreed) return {};
  const int err = set(api, qp, to_wire(*agreed));
  if (err == 0) return {};
  return set_failed(*agreed, qp, err);
}

Status EceAgreement::set_accepted(size_t index, const verbs::Api& api, ibv_qp* qp,
                                  const wire::QpAddress& receiver) {
  std::optional<ibv_ece>& offer = at(index);
  if (!offer || receiver.ece_supported == 0) {
    offer.reset();
    return {};
  }
  offer = from_wire(receiver.ece);
  const int err = set(api, qp, receiver.ece);
  if (err == 0) return {};
  if (err == EOPNOTSUPP) {
    // An HCA without ECE whose driver answers queries all the same, with options of 0 (mlx5), which
    // is what the receiver has accepted.
    offer.reset();
    return {};
  }
  return set_failed(*offer, qp, err);
}

void EceAgreement::describe(wire::EndPoint* end) const {
  for (size_t i = 0; i < by_pair_.size(); ++i) {
    if (!by_pair_[i]) continue;
    end->qp[i].ece = to_wire(*by_pair_[i]);
    end->qp[i].ece_supported = 1;
  }
}

std::string EceAgreement::text() const {
  const ibv_ece* first = nullptr;
  int count = 0;
  for (const std::optional<ibv_ece>& ece : by_pair_) {
    if (!ece) continue;
    if (first == nullptr) first = &*ece;
    ++count;
  }
  if (count == 0) return "";
  return ", ECE " + text_of(*first) + " on " + std::to_string(count) + " QP(s)";
}

}  // namespace gdr::transport
