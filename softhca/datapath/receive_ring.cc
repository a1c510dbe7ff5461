#include "softhca/datapath/receive_ring.h"

#include "softhca/datapath/completions.h"

namespace softhca {

void flush_receives(const Process& process, const Peer& owner, SharedQp& qp) {
  if (qp.silent.load() != 0 || qp.inbound.load() != 0) return;
  uint64_t head = qp.rq_head.load();
  for (; head != qp.rq_tail.load(); ++head) {
    Cqe entry = {};
    entry.wr_id = receive_at(owner, qp, head).wr_id;
    entry.status = IBV_WC_WR_FLUSH_ERR;
    entry.opcode = IBV_WC_RECV;
    entry.qp_num = qp.qpn;
    push_completion(process, owner, qp.recv_cq, entry, false);
  }
  qp.rq_head.store(head);
}

}  // namespace softhca
