// What SendComm does with the messages of a group, of which it holds the simple ones back: those of
// the direct path, and those that SpreadSends holds in the same chain.
#include "transport/data/chunk_write.h"
#include "transport/data/send_comm.h"

namespace gdr::transport {

// Holds a message back until the last one of its group, or the second poll.
bool SendComm::hold(const OutgoingMessage& message) {
  const RdmaWrite data = write_of(message, slot(message.buffer), 0, message.bytes, pair());
  held_.add(pair(), writes_of(message, data, pair(), tables_, connection_.peer()),
            {message.immediate(), message.wr_id()}, message.request);
  if (is_last_of_group() || held_.full()) return post_held();
  has_waiting_ = true;
  return true;
}

// Whether SpreadSends holds the message back: nothing about it or the connection is special.
bool SendComm::spread_holds(const Send& send) const {
  return wire::is_plain(slot(send.buffer)) && spread_->holds(send.bytes);
}

bool SendComm::post_held() {
  if (held_.empty()) return true;
  if (spread_ != nullptr) {
    spread_->post_held();
    return !connection_.failed();
  }
  const int err = held_.post();
  if (err == 0) [[likely]]
    return true;
  connection_.fail_verbs("posting a send", err);
  return false;
}

// Posts what waits, as far as it is ready.
bool SendComm::post_waiting() {
  if (connection_.failed()) held_.drop();
  if (!held_.empty() && held_.is_due() && !post_held()) return false;
  has_waiting_ = !held_.empty();
  return true;
}

}  // namespace gdr::transport
