#include "transport/data/spread_flushes.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "transport/pairs/work_id.h"
#include "transport/recovery/recovery_rules.h"

namespace gdr::transport {

SpreadFlushes::SpreadFlushes(Connection& connection, std::vector<Flush> flushes,
                             ServiceClass service)
    : connection_(connection), service_(service) {
  for (Flush& flush : flushes) {
    const bool connected = flush.was_connected();  // by the handshake, which goes on without it
    rails_.push_back({.flush = std::move(flush), .in_error = !connected});
  }
}

SpreadFlushes::Rail* SpreadFlushes::find(uint32_t rail) {
  const auto found =
      std::ranges::find_if(rails_, [rail](const Rail& one) { return one.flush.rail() == rail; });
  return found == rails_.end() ? nullptr : &*found;
}

bool SpreadFlushes::post(Request* request, size_t index, const void* address,
                         const MemoryHandle& memory) {
  Outstanding& flush = outstanding_[index];
  flush = {request, address, &memory, 0};
  for (Rail& rail : rails_) {
    const bool needed = (carried_ >> rail.flush.rail() & 1) != 0;
    if (needed && may_read(rail, flush)) (void)read(rail, index);
  }
  if (flush.rails == 0) read_over_any(index);
  request->pending = 1;
  return !connection_.failed() || connection_.may_finish_local_work();
}

// No data has come over a rail on which the memory has no key: the rail was given up before it was
// registered. Both ends may still have to agree on the loss.
bool SpreadFlushes::may_read(const Rail& rail, const Outstanding& flush) const {
  const MemoryHandle::RailKeys keys = flush.memory->keys[rail.flush.rail()];
  const bool is_lost = (lost_ >> rail.flush.rail() & 1) != 0;
  return !is_lost && (keys.lkey != 0 || keys.rkey != 0);
}

// Posts a read over the rail. Where that fails, the rail is lost, which has posted it again over
// another one.
bool SpreadFlushes::read(Rail& rail, size_t index) {
  Outstanding& flush = outstanding_[index];
  if ((flush.rails >> rail.flush.rail() & 1) != 0) return true;  // instead of a lost one
  flush.rails |= 1u << rail.flush.rail();
  if (rail.in_error) {
    ++rail.epoch;
    rail.reads = 0;
    rail.in_error = !reconnect(rail);
  }
  const WorkId id{WorkKind::kFlush, rail.flush.rail(), rail.epoch, static_cast<uint32_t>(index)};
  const int err =
      rail.in_error ? ENOTCONN : rail.flush.post(flush.address, *flush.memory, encode(id));
  if (err == 0) {
    ++rail.reads;
    unread_ &= ~(1u << rail.flush.rail());
    return true;
  }
  if (fails_everywhere(flush)) {
    connection_.fail_verbs("flushing received data to GPU memory over any rail", err);
  } else {
    lose(rail, IBV_WC_GENERAL_ERR);
  }
  return false;
}

// Data comes over the rail again, so that its port works: the GID may move between the look at its
// index and the change to RTR, as the addresses of an interface return one by one. So a second
// attempt is made before the rail is given up for that.
bool SpreadFlushes::reconnect(Rail& rail) const {
  if (!connection_.recovery()->standby().keep_queue(rail.flush.rail())) return false;
  const RailEnd& end = connection_.rails()[rail.flush.rail()];
  Status connected = rail.flush.reconnect(end, service_, connection_.options());
  if (!connected) {
    (void)connection_.end().room.make_room(end.device(), connected.error(), /*waits=*/false);
    connected = rail.flush.reconnect(end, service_, connection_.options());
  }
  if (connected) return true;
  GDR_INFO(log::kNet, "%s: the QP that flushes what comes over %s cannot be connected again: %s",
           connection_.text().c_str(), to_string(end.device()).c_str(),
           connected.error().text.c_str());
  return false;
}

// Without a live rail the flush waits. A connection of which all rails are lost goes on while one
// of them is being tried again; else it has failed.
void SpreadFlushes::read_over_any(size_t index) {
  for (Rail& rail : rails_) {
    if (may_read(rail, outstanding_[index]) && read(rail, index)) return;
  }
}

void SpreadFlushes::on_read(const WorkId& id) {
  Rail* rail = find(id.pair);
  Outstanding& flush = outstanding_[id.ordinal];
  if (!is_of_epoch(id, rail->epoch)) return;
  if (--rail->reads == 0 && (unread_ >> id.pair & 1) == 0) carried_ &= ~(1u << id.pair);
  if ((flush.rails >> id.pair & 1) == 0) return;
  flush.rails &= ~(1u << id.pair);
  if (flush.rails != 0) return;
  std::exchange(flush.request, nullptr)->pending = 0;
  connection_.link().count_completed();
}

// The HCA may have lost what is registered on a rail that was given up (StandbyPairs::give_way).
void SpreadFlushes::on_failed_read(const ibv_wc& wc) {
  const WorkId id = decode_work_id(wc.wr_id);
  Rail* rail = find(id.pair);
  if (!is_of_epoch(id, rail->epoch)) return;
  const bool is_fatal = classify_failure(wc.status) == FailureClass::kConnectionLost &&
                        !connection_.recovery()->is_given_up(id.pair);
  if (is_fatal || fails_everywhere(outstanding_[id.ordinal])) {
    connection_.fail_completion(wc);
  } else {
    lose(*rail, wc.status);
  }
}

// Counts a failure.
bool SpreadFlushes::fails_everywhere(Outstanding& flush) {
  if (!connection_.end().recovers()) return true;
  const auto now = connection_.options().now();
  if (flush.failures++ == 0) flush.failing_since = now;
  const FailedWork failed{.failures = flush.failures, .failing_for = now - flush.failing_since};
  return fails_over_every_path(failed, rails_.size(), connection_.options());
}

void SpreadFlushes::lose(Rail& rail, ibv_wc_status status) {
  rail.in_error = true;
  connection_.recovery()->on_failed_flush(rail.flush.rail(), status);
  stop_rail(rail.flush.rail());
}

void SpreadFlushes::stop_rail(uint32_t rail) {
  lost_ |= 1u << rail;
  Rail* stopped = find(rail);
  if (stopped == nullptr) return;
  stopped->in_error = true;  // so that late completions do not count
  ++stopped->epoch;
  stopped->reads = 0;
  for (size_t index = 0; index < outstanding_.size(); ++index) {
    Outstanding& flush = outstanding_[index];
    if (flush.request == nullptr || (flush.rails >> rail & 1) == 0) continue;
    flush.rails &= ~(1u << rail);
    // A read over another rail ends behind what the lost one has written: the loss takes far longer
    // than a write of the HCA. A second one would have the id of the first.
    if (flush.rails == 0) read_over_any(index);
  }
}

void SpreadFlushes::start_rail(uint32_t rail) {
  lost_ &= ~(1u << rail);
  Rail* started = find(rail);
  if (started == nullptr) return;
  for (size_t index = 0; index < outstanding_.size(); ++index) {
    const Outstanding& flush = outstanding_[index];
    const bool waits = flush.request != nullptr && flush.rails == 0;
    if (waits && may_read(*started, flush) && !read(*started, index)) return;  // it is lost again
  }
}

void SpreadFlushes::destroy_queue_pairs() {
  for (Rail& rail : rails_) rail.flush.destroy_queue_pair();
}

}  // namespace gdr::transport
