// Posting, running and completing work requests.
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "tests/fakes/verbs/objects.h"

namespace fake_verbs {
namespace {

bool is_supported(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
         opcode == IBV_WR_RDMA_READ;
}

ibv_wc_opcode completion_of(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE;
}

void push(Cq& cq, const Completion& completion) {
  // An HCA raises IBV_EVENT_CQ_ERR and the CQ is of no more use.
  if (static_cast<int>(cq.completions.size()) >= cq.cqe) cq.overrun = true;
  cq.completions.push_back(completion);
}

// What an HCA writes, another thread may read meanwhile: aligned words are written as a whole, and
// ThreadSanitizer knows of it. A longer transfer is data, which is not read before its completion.
void move_words(std::byte* to, const std::byte* from, size_t bytes) {
  constexpr size_t kLongest = 4096;
  constexpr size_t kWord = sizeof(uint64_t);
  for (; bytes <= kLongest && bytes >= kWord && reinterpret_cast<uintptr_t>(to) % kWord == 0;
       bytes -= kWord, to += kWord, from += kWord) {
    uint64_t word;
    std::memcpy(&word, from, kWord);
    __atomic_store_n(reinterpret_cast<uint64_t*>(to), word, __ATOMIC_RELEASE);
  }
  if (bytes == sizeof(uint32_t)) {
    uint32_t word;
    std::memcpy(&word, from, sizeof(word));
    __atomic_store_n(reinterpret_cast<uint32_t*>(to), word, __ATOMIC_RELEASE);
    return;
  }
  std::memcpy(to, from, bytes);
}

}  // namespace

int FakeVerbs::post(Qp& qp, const ibv_send_wr& wr, size_t doorbell) {
  if (fails(Call::kPostSend)) return errno;
  if (qp.now != IBV_QPS_RTS && qp.now != IBV_QPS_ERR) return EINVAL;
  if (!qp.takes_sends) return ENOMEM;
  if (!is_supported(wr.opcode) || wr.num_sge > static_cast<int>(qp.cap.max_send_sge)) return EINVAL;
  if (qp.occupied >= qp.cap.max_send_wr) return ENOMEM;
  Transfer transfer{wr, qp.qp_num, {wr.sg_list, wr.sg_list + wr.num_sge}, {}};
  transfer.wr.next = nullptr;
  transfer.wr.sg_list = nullptr;
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
    if (transfer.bytes() > qp.cap.max_inline_data) return ENOMEM;
    for (const ibv_sge& sge : transfer.source) {
      auto* begin = reinterpret_cast<const std::byte*>(sge.addr);
      transfer.inline_data.insert(transfer.inline_data.end(), begin, begin + sge.length);
    }
  }
  const ibv_sge first = wr.num_sge > 0 ? wr.sg_list[0] : ibv_sge{};
  posted_.push_back(Posted{wr.wr_id, qp.qp_num, wr.opcode, wr.send_flags, first.addr,
                           static_cast<uint32_t>(transfer.bytes()), first.lkey,
                           wr.wr.rdma.remote_addr, wr.wr.rdma.rkey, wr.imm_data, doorbell});
  ++qp.occupied;
  if (qp.now == IBV_QPS_ERR) {
    complete(transfer, qp, IBV_WC_WR_FLUSH_ERR);
  } else {
    in_flight_.push_back(std::move(transfer));
  }
  return 0;
}

void FakeVerbs::run_ready() {
  if (!held_) run(-1, nullptr);
}

// Runs up to `count` transfers, of one QP or of all, oldest first; a negative count is no limit.
int FakeVerbs::run(int count, const uint32_t* qp_num) {
  int ran = 0;
  std::vector<uint32_t> stalled;  // QPs whose first transfer waits for a receive
  for (size_t i = 0; i < in_flight_.size() && ran != count;) {
    const uint32_t from = in_flight_[i].qp_num;
    bool skip = qp_num != nullptr && from != *qp_num;
    for (uint32_t other : stalled) skip = skip || other == from;
    if (skip) {
      ++i;
      continue;
    }
    Transfer transfer = std::move(in_flight_[i]);
    in_flight_.erase(in_flight_.begin() + static_cast<std::ptrdiff_t>(i));
    if (run_transfer(transfer)) {
      ++ran;
      i = 0;  // an error may have flushed others
    } else {
      in_flight_.insert(in_flight_.begin() + static_cast<std::ptrdiff_t>(i), std::move(transfer));
      stalled.push_back(from);
    }
  }
  return ran;
}

bool FakeVerbs::is_port_active(const Qp& qp) const {
  const auto& ports = static_cast<const Context*>(qp.context)->hca->config.ports;
  return ports.at(qp.attr.port_num - 1u).active;
}

// False: the peer has no receive posted for it.
bool FakeVerbs::run_transfer(Transfer& transfer) {
  Qp& qp = *find_qp(transfer.qp_num);
  if (transfer_failure_ != IBV_WC_SUCCESS && transfer_failure_skip_-- == 0) {
    if (transfer_failure_arrives_) (void)arrive(transfer, qp);
    complete(transfer, qp, std::exchange(transfer_failure_, IBV_WC_SUCCESS));
    enter_error(qp);
    return true;
  }
  const bool fails = fails_ && fails_(transfer);
  const std::optional<ibv_wc_status> status = fails ? each_failure_ : arrive(transfer, qp);
  if (!status) return false;
  complete(transfer, qp, *status);
  if (*status != IBV_WC_SUCCESS) enter_error(qp);
  if (*status == IBV_WC_REM_ACCESS_ERR) enter_error(*find_qp(qp.attr.dest_qp_num));
  return true;
}

// What a transfer does at the peer. Returns its status; nothing where it waits for a receive.
std::optional<ibv_wc_status> FakeVerbs::arrive(const Transfer& transfer, Qp& qp) {
  Qp* peer = find_qp(qp.attr.dest_qp_num);
  const bool reachable = peer != nullptr && peer->attr.dest_qp_num == qp.qp_num &&
                         (peer->now == IBV_QPS_RTR || peer->now == IBV_QPS_RTS) &&
                         is_port_active(qp) && is_port_active(*peer);
  if (!reachable) return IBV_WC_RETRY_EXC_ERR;
  const bool takes_receive = transfer.wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  if (takes_receive && peer->receives.empty()) return {};
  const ibv_wc_status status = move_data(transfer, qp, *peer);
  if (status == IBV_WC_SUCCESS && takes_receive) {
    complete_receive(*peer, IBV_WC_SUCCESS, transfer.wr.imm_data,
                     static_cast<uint32_t>(transfer.bytes()));
  }
  return status;
}

ibv_wc_status FakeVerbs::move_data(const Transfer& transfer, Qp& qp, Qp& peer) {
  const size_t bytes = transfer.bytes();
  if (bytes == 0) return IBV_WC_SUCCESS;  // neither key is looked at
  const auto& ports = static_cast<const Context*>(qp.context)->hca->config.ports;
  const uint32_t most = ports.at(qp.attr.port_num - 1u).max_msg_sz;
  if (most != 0 && bytes > most) return IBV_WC_LOC_LEN_ERR;
  const auto& rdma = transfer.wr.wr.rdma;
  const Mr* remote = find_remote(peer.pd, rdma.rkey, rdma.remote_addr, bytes);
  const bool reads = transfer.wr.opcode == IBV_WR_RDMA_READ;
  const int needed = reads ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
  const bool inlined = (transfer.wr.send_flags & IBV_SEND_INLINE) != 0;
  for (const ibv_sge& sge : transfer.source) {
    const Mr* local = inlined ? nullptr : find_local(qp.pd, sge.lkey, sge.addr, sge.length);
    if (!inlined && local == nullptr) return IBV_WC_LOC_PROT_ERR;
    if (reads && (local->access & IBV_ACCESS_LOCAL_WRITE) == 0) return IBV_WC_LOC_PROT_ERR;
  }
  if (remote == nullptr || (remote->access & needed) == 0 ||
      (peer.attr.qp_access_flags & static_cast<unsigned>(needed)) == 0) {
    return IBV_WC_REM_ACCESS_ERR;
  }
  auto* there = reinterpret_cast<std::byte*>(rdma.remote_addr);
  if (inlined) {
    move_words(there, transfer.inline_data.data(), bytes);
    return IBV_WC_SUCCESS;
  }
  for (const ibv_sge& sge : transfer.source) {
    auto* here = reinterpret_cast<std::byte*>(sge.addr);
    move_words(reads ? here : there, reads ? there : here, sge.length);
    there += sge.length;
  }
  return IBV_WC_SUCCESS;
}

void FakeVerbs::complete(const Transfer& transfer, Qp& qp, ibv_wc_status status) {
  ++qp.complete_unsignalled;
  if (status == IBV_WC_SUCCESS && (transfer.wr.send_flags & IBV_SEND_SIGNALED) == 0) return;
  ibv_wc wc{};
  wc.wr_id = transfer.wr.wr_id;
  wc.status = status;
  wc.opcode = completion_of(transfer.wr.opcode);
  wc.qp_num = qp.qp_num;
  wc.byte_len = static_cast<uint32_t>(transfer.bytes());
  push(*static_cast<Cq*>(qp.send_cq), Completion{wc, std::exchange(qp.complete_unsignalled, 0u)});
}

void FakeVerbs::complete_receive(Qp& qp, ibv_wc_status status, uint32_t imm_data, uint32_t bytes) {
  require(!qp.receives.empty(), "a completion of a receive needs a posted receive");
  ibv_wc wc{};
  wc.wr_id = qp.receives.front();
  qp.receives.pop_front();
  wc.status = status;
  wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
  wc.wc_flags = IBV_WC_WITH_IMM;
  wc.imm_data = imm_data;
  wc.byte_len = bytes;
  wc.qp_num = qp.qp_num;
  push(*static_cast<Cq*>(qp.recv_cq), Completion{wc, 0});
}

void FakeVerbs::enter_error(Qp& qp) {
  if (qp.now == IBV_QPS_ERR) return;
  qp.now = IBV_QPS_ERR;
  std::deque<Transfer> others;
  for (Transfer& transfer : in_flight_) {
    if (transfer.qp_num == qp.qp_num) {
      complete(transfer, qp, IBV_WC_WR_FLUSH_ERR);
    } else {
      others.push_back(std::move(transfer));
    }
  }
  in_flight_ = std::move(others);
  while (!qp.receives.empty()) complete_receive(qp, IBV_WC_WR_FLUSH_ERR, 0, 0);
}

int FakeVerbs::drop_completions(uint32_t qp_num) {
  std::lock_guard lock(mutex_);
  Qp& qp = *find_qp(qp_num);
  auto is_of = [qp_num](const Completion& each) { return each.wc.qp_num == qp_num; };
  return static_cast<int>(std::erase_if(static_cast<Cq*>(qp.send_cq)->completions, is_of));
}

const Mr* FakeVerbs::find_local(const ibv_pd* pd, uint32_t lkey, uint64_t address,
                                size_t bytes) const {
  auto it = by_lkey_.find(lkey);
  if (it == by_lkey_.end() || it->second->pd != pd) return nullptr;
  return it->second->covers(address, bytes) ? it->second : nullptr;
}

const Mr* FakeVerbs::find_remote(const ibv_pd* pd, uint32_t rkey, uint64_t address,
                                 size_t bytes) const {
  auto it = by_rkey_.find(rkey);
  if (it == by_rkey_.end() || it->second->pd != pd) return nullptr;
  return it->second->covers(address, bytes) ? it->second : nullptr;
}

// The calls that verbs.h makes through a context's own table.
struct HotEntry {
  static int post_send(ibv_qp* raw, ibv_send_wr* wr, ibv_send_wr** bad) {
    FakeVerbs& fabric = fabric_of(raw->context);
    std::lock_guard lock(fabric.mutex_);
    const size_t doorbell = fabric.doorbells_++;
    for (; wr != nullptr; wr = wr->next) {
      if (int err = fabric.post(*static_cast<Qp*>(raw), *wr, doorbell); err != 0) {
        *bad = wr;
        return err;
      }
    }
    fabric.run_ready();
    return 0;
  }

  static int post_recv(ibv_qp* raw, ibv_recv_wr* wr, ibv_recv_wr** bad) {
    FakeVerbs& fabric = fabric_of(raw->context);
    std::lock_guard lock(fabric.mutex_);
    Qp& qp = *static_cast<Qp*>(raw);
    for (; wr != nullptr; wr = wr->next) {
      *bad = wr;
      if (fabric.fails(Call::kPostRecv)) return errno;
      if (qp.now == IBV_QPS_RESET) return EINVAL;
      if (qp.receives.size() >= qp.cap.max_recv_wr) return ENOMEM;
      qp.receives.push_back(wr->wr_id);
      if (qp.now == IBV_QPS_ERR && !fabric.keeps_late_receives_) {
        fabric.complete_receive(qp, IBV_WC_WR_FLUSH_ERR, 0, 0);
      }
    }
    fabric.run_ready();  // those that waited for a receive
    return 0;
  }

  static int poll_cq(ibv_cq* raw, int count, ibv_wc* wc) {
    FakeVerbs& fabric = fabric_of(raw->context);
    std::lock_guard lock(fabric.mutex_);
    Cq& cq = *static_cast<Cq*>(raw);
    ++cq.polls;
    if (fabric.fails(Call::kPollCq) || cq.overrun) return -1;
    int n = 0;
    for (; n < count && !cq.completions.empty(); ++n) {
      const Completion completion = cq.completions.front();
      cq.completions.pop_front();
      wc[n] = completion.wc;
      if (Qp* qp = fabric.find_qp(completion.wc.qp_num)) qp->occupied -= completion.retired;
    }
    return n;
  }
};

void fill_hot_calls(ibv_context_ops* ops) {
  ops->post_send = HotEntry::post_send;
  ops->post_recv = HotEntry::post_recv;
  ops->poll_cq = HotEntry::poll_cq;
}

}  // namespace fake_verbs
