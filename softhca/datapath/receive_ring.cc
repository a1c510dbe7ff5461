#include "softhca/datapath/receive_ring.h"

#include "softhca/datapath/completions.h"

namespace softhca {

void flush_receives(const Process& process, const Peer& owner, SharedQp& qp) {
  if (qp.silent.load() != 0 || qp.inbound.load() != 0) return;
  // One by one: a process that is killed in between must not leave completed ones to be completed
  // again.
  while (qp.rq_head.load() != qp.rq_tail.load()) {
    Cqe entry = {};
    entry.wr_id = oldest_receive(owner, qp).wr_id;
    entry.status = IBV_WC_WR_FLUSH_ERR;
    entry.opcode = IBV_WC_RECV;
    entry.qp_num = qp.qpn;
    pop_receive(qp);
    push_completion(process, owner, qp.recv_cq, entry, false);
  }
}

}  // namespace softhca
