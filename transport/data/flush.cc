#include "transport/data/flush.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "transport/pairs/work_id.h"
#include "transport/recovery/recovery_rules.h"

namespace gdr::transport {
namespace {

constexpr char kNoRails[] =
    "received data in GPU memory cannot be flushed: the HCA could register no GPU memory when the "
    "connection was made. Fix: load nvidia-peermem before the job starts";
constexpr char kTooMany[] = "more flushes are outstanding than NCCL has requests";

}  // namespace

Status Flushes::add_rail(uint32_t index, bool stands_by) {
  Rail rail{.index = index};
  if (!stands_by) {
    if (Status made = make(rail); !made) return made;
    (void)connect(rail, connection_.rails()[index].address());
  }
  rails_.push_back(std::move(rail));
  return {};
}

Status Flushes::make(Rail& rail) const {
  const RailEnd& end = connection_.rails()[rail.index];
  Pages<uint64_t> target = map_pages<uint64_t>(sizeof(uint64_t));
  Result<verbs::UniqueMr> mr = register_block(*end.device().hca, target.get(), sizeof(uint64_t));
  if (!mr) return forward_error(mr);
  Result<QueuePair> pair = create_queue_pair(end.device(), end.cq(), QueueDepths{kRequests, 1, 0});
  if (!pair) return forward_error(pair);
  rail.qp = std::move(pair->qp);
  rail.target_mr = std::move(*mr);
  rail.target = std::move(target);
  return {};
}

// Connects the QP, in any state, to itself. It is in the class of the data. One that is in RESET is
// not moved there: irdma moves it to ERROR instead, from where it does not return
// (irdma_modify_qp_roce of Linux).
Status Flushes::connect(Rail& rail, const wire::RailAddress& address) const {
  const Device& device = connection_.rails()[rail.index].device();
  const ConnectionOptions& options = connection_.options();
  const ServiceClass service{connection_.peer().service_level, connection_.peer().traffic_class};
  ibv_qp* qp = rail.qp.get();
  const QueuePairPath to_itself{&address, &address, qp->qp_num, 0, 0, service};
  if (qp->state != IBV_QPS_RESET) {
    Status reset = make_now(to_plain_state(device, qp, IBV_QPS_RESET));
    if (!reset) return reset;
  }
  for (const StateChange& change :
       {to_init(device, qp, options), to_ready_to_receive(device, qp, to_itself),
        to_ready_to_send(device, qp, to_itself, options)}) {
    if (Status changed = make_now(change); !changed) return changed;
  }
  rail.in_error = false;
  return {};
}

// Connects the QP by the rail's present address, and makes one that does not exist yet.
Status Flushes::connect_again(Rail& rail) const {
  if (rail.qp == nullptr) {
    if (Status made = make(rail); !made) return made;
  }
  Result<wire::RailAddress> address =
      connection_.rails()[rail.index].present_address(connection_.options());
  if (!address) return forward_error(address);
  return connect(rail, *address);
}

Flushes::Rail* Flushes::find(uint32_t rail) {
  const auto found = std::ranges::find(rails_, rail, &Rail::index);
  return found == rails_.end() ? nullptr : &*found;
}

// While a read over a rail is outstanding, a later flush reads over it as well: it must not be
// complete before the data that the first one orders.
bool Flushes::post(const void* address, const MemoryHandle& memory, Request** request) {
  if (rails_.empty()) [[unlikely]]
    return fail(kNoRails);
  Request* taken = requests_.take();
  if (taken == nullptr) [[unlikely]]
    return fail(kTooMany);
  taken->bytes[0] = 0;
  taken->pending = 1;
  taken->data = address;
  taken->memory = &memory;
  connection_.link().count_posted();
  const size_t index = requests_.index_of(*taken);
  outstanding_[index] = {taken, 0};
  for (Rail& rail : rails_) {
    const bool needed = rail.reads > 0 || (unread_ >> rail.index & 1) != 0;
    if (needed && may_read(rail, *taken)) (void)read(rail, index);
  }
  if (outstanding_[index].rails == 0) read_over_any(index);
  if (connection_.failed()) return false;
  *request = taken;
  return true;
}

// No data has come over a rail on which the memory has no key: the rail was given up before it was
// registered. Both ends may still have to agree on the loss.
bool Flushes::may_read(const Rail& rail, const Request& flush) const {
  const MemoryHandle::RailKeys keys = flush.memory->keys[rail.index];
  return !rail.is_lost && (keys.lkey != 0 || keys.rkey != 0);
}

// Posts a read over the rail. Where that fails, the rail is lost, which has posted it again over
// another one.
//
// Data comes over the rail, so that its port works: the GID may move between the look at its index
// and the change to RTR, as the addresses of an interface return one by one. So a second attempt to
// connect is made before the rail is given up for that.
bool Flushes::read(Rail& rail, size_t index) {
  Outstanding& flush = outstanding_[index];
  if ((flush.rails >> rail.index & 1) != 0) return true;  // instead of a lost one
  flush.rails |= 1u << rail.index;
  std::string why;
  if (rail.in_error && connection_.recovery()->standby().keep_queue(rail.index)) {
    const RailEnd& end = connection_.rails()[rail.index];
    Status connected = connect_again(rail);
    if (!connected) {
      (void)connection_.end().watcher->room().make_room(*end.device().hca, connected.error(),
                                                        &connection_.end().rooms, /*bytes=*/0,
                                                        /*waits=*/false);
      connected = connect_again(rail);
    }
    if (!connected) {
      GDR_INFO(log::kNet, "%s: the QP that flushes what comes over %s cannot be connected: %s",
               connection_.text().c_str(), to_string(end.device()).c_str(),
               connected.error().text.c_str());
      why = connected.error().text;
    }
  }
  const int err = rail.in_error ? ENOTCONN : post_read(rail, index);
  if (err == 0) {
    ++rail.reads;
    unread_ &= ~(1u << rail.index);
    return true;
  }
  if (fails_everywhere(flush)) {
    connection_.fail(Code::kSystem,
                     "flushing received data to GPU memory over any rail failed" +
                         (why.empty() ? " with errno " + std::to_string(err) : ": " + why));
  } else {
    lose(rail, IBV_WC_GENERAL_ERR);
  }
  return false;
}

// Reads one byte of what the flush is about. Returns an errno value; 0 is success.
int Flushes::post_read(const Rail& rail, size_t index) {
  const Request& flush = *outstanding_[index].request;
  ibv_sge sge{reinterpret_cast<uint64_t>(rail.target.get()), 1, rail.target_mr->lkey};
  ibv_send_wr wr{};
  wr.wr_id = encode(WorkId{WorkKind::kFlush, rail.index, rail.epoch, static_cast<uint32_t>(index)});
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_READ;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(flush.data);
  wr.wr.rdma.rkey = flush.memory->keys[rail.index].rkey;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(rail.qp.get(), &wr, &bad);
}

// Without a live rail the flush waits. A connection of which all rails are lost goes on while one
// of them is being tried again; else it has failed.
void Flushes::read_over_any(size_t index) {
  for (Rail& rail : rails_) {
    if (may_read(rail, *outstanding_[index].request) && read(rail, index)) return;
  }
}

void Flushes::on_read(const WorkId& id, const ibv_wc& wc) {
  Rail* rail = find(id.pair);
  Outstanding& flush = outstanding_[id.ordinal];
  if (!is_of_epoch(id, rail->epoch)) return;
  if (wc.status != IBV_WC_SUCCESS) return on_failed_read(*rail, flush, wc);
  --rail->reads;
  if ((flush.rails >> id.pair & 1) == 0) return;
  flush.rails &= ~(1u << id.pair);
  if (flush.rails != 0) return;
  std::exchange(flush.request, nullptr)->pending = 0;
  connection_.link().count_completed();
}

// The HCA may have lost what is registered on a rail that was given up (StandbyPairs::give_way).
void Flushes::on_failed_read(Rail& rail, Outstanding& flush, const ibv_wc& wc) {
  const bool is_fatal = !loses_pair(wc.status) && !connection_.recovery()->is_given_up(rail.index);
  if (is_fatal || fails_everywhere(flush)) {
    connection_.fail_completion(wc);
  } else {
    lose(rail, wc.status);
  }
}

// Counts a failure.
bool Flushes::fails_everywhere(Outstanding& flush) {
  if (!connection_.end().recovers()) return true;
  const auto now = connection_.options().now();
  if (flush.failures++ == 0) flush.failing_since = now;
  const FailedWork failed{.failures = flush.failures, .failing_for = now - flush.failing_since};
  return fails_over_every_path(failed, rails_.size(), connection_.options());
}

void Flushes::lose(Rail& rail, ibv_wc_status status) {
  connection_.recovery()->on_failed_flush(rail.index, status);
  stop_rail(rail.index);
}

void Flushes::stop_rail(uint32_t index) {
  Rail* rail = find(index);
  if (rail == nullptr) return;
  rail->is_lost = rail->in_error = true;
  ++rail->epoch;  // so that late completions do not count
  rail->reads = 0;
  for (size_t i = 0; i < outstanding_.size(); ++i) {
    Outstanding& flush = outstanding_[i];
    if (flush.request == nullptr || (flush.rails >> index & 1) == 0) continue;
    flush.rails &= ~(1u << index);
    // A read over another rail ends behind what the lost one has written: the loss takes far longer
    // than a write of the HCA. A second one would have the id of the first.
    if (flush.rails == 0) read_over_any(i);
  }
}

void Flushes::start_rail(uint32_t index) {
  Rail* rail = find(index);
  if (rail == nullptr) return;
  rail->is_lost = false;
  for (size_t i = 0; i < outstanding_.size(); ++i) {
    const Outstanding& flush = outstanding_[i];
    const bool waits = flush.request != nullptr && flush.rails == 0;
    if (waits && may_read(*rail, *flush.request) && !read(*rail, i)) return;  // it is lost again
  }
}

bool Flushes::fail(const char* what) {
  connection_.fail(Code::kInvalidUsage, what);
  return false;
}

}  // namespace gdr::transport
