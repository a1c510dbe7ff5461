// A connection of several rails, driven by a script: both ends, what their watcher does, and
// what is checked of them. Nothing happens by itself, and the clock only moves as the script says.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <span>
#include <vector>

#include "tests/fuzz/comm_run.h"

namespace gdr::fuzz {

namespace wire = transport::wire;
using transport::Outcome;
using transport::Request;

// Rails of each end, kRails in all; those on standby come last.
struct RailsShape {
  int active;
  int standby;
  uint32_t max_message_bytes = 1u << 30;  // of a port
};

struct RailsRun {
  static constexpr size_t kShift = 64;        // between the data of two messages
  static constexpr size_t kRoom = 136 << 10;  // of a buffer: messages of up to three chunks
  static constexpr size_t kMaxBuffers = 8;
  static constexpr int kRails = 3;  // of each end, and pairs

  // A grouped receive, and what was sent into its buffers.
  struct Receive {
    Request* request;
    size_t first;  // of its buffers
    int count;
    int sent = 0;
    std::array<const char*, 3> data{};  // by tag; null: nothing was sent
    std::array<size_t, 3> bytes{};
    bool done = false;
  };

  static transport::TransportOptions options_with(transport::ManualClock& clock) {
    transport::TransportOptions options = transport::test_options();
    options.connection.now = clock.as_now();
    return options;
  }
  explicit RailsRun(const RailsShape& shape)
      : pair(shape.active, shape.standby, options_with(clock), transport::local_socket_pair(),
             {.max_msg_sz = shape.max_message_bytes}),
        from(*pair.sender, pair.options.memory, kRoom + kMaxBuffers * kShift),
        to(*pair.receiver, pair.options.memory, kMaxBuffers * kRoom) {
    check(shape.active + shape.standby == kRails, "a shape has another number of rails");
    stop_watching(pair);
    to.memory->host = false;
    for (size_t i = 0; i < kRoom + kMaxBuffers * kShift; ++i) {
      from.data.get()[i] = static_cast<char>((i * 2654435761u) >> 24);
    }
  }

  // ---- data paths
  void receive(int count) {
    if (buffers_ + static_cast<size_t>(count) > kMaxBuffers) return;
    std::array<transport::ReceiveBuffer, 3> buffers;
    for (int i = 0; i < count; ++i) {
      buffers[i] = {to.data.get() + (buffers_ + i) * kRoom, kRoom, i, to.memory.get()};
    }
    Receive receive{.request = nullptr, .first = buffers_, .count = count};
    const transport::Arrays arrays(std::span(buffers).first(static_cast<size_t>(count)));
    note(pair.receiver->irecv(arrays.get(), &receive.request), false);
    if (receive.request == nullptr) return;
    buffers_ += static_cast<size_t>(count);
    receives_.push_back(receive);
  }
  void send(size_t bytes, int tag) {
    if (sends_.size() >= kMaxBuffers) return;
    const char* data = from.data.get() + sends_.size() * kShift;
    Request* request = nullptr;
    call_sender([&] { note(pair.sender->isend(data, bytes, tag, *from.memory, &request), true); });
    if (request == nullptr) return;
    if (!posts_chunks()) slots_of_held_.push_back(sender_tables.ring);
    sends_.push_back(request);
    if (forged) return;
    check(current_ < receives_.size(), "a message is sent without a receive");
    Receive& into = receives_[current_];
    check(tag < into.count && into.data[tag] == nullptr, "a message is sent into a used buffer");
    into.data[tag] = data;
    into.bytes[tag] = bytes;
    if (++into.sent == into.count) ++current_;
  }
  void flush() {
    const transport::ReceiveBuffer buffer{to.data.get(), kRoom, 0, to.memory.get()};
    Request* request = nullptr;
    if (flushes_.size() < transport::Flushes::kRequests) {
      note(pair.receiver->iflush(transport::Arrays(buffer).get(), &request), false);
    }
    if (request != nullptr) flushes_.push_back(request);
  }
  void test_receiver() {
    for (Receive& receive : receives_) {
      Outcome outcome;
      if (receive.done) continue;
      CommRun::test(receive.request, &outcome);
      note(outcome.alive, false);
      receive.done = outcome.done;
      if (outcome.done) check_data(receive, outcome);
    }
    std::erase_if(flushes_, [this](Request* request) {
      Outcome outcome;
      const bool again = CommRun::test(request, &outcome);
      note(outcome.alive, false);
      return !again;
    });
  }
  void test_sender() {
    call_sender([&] {
      for (Request*& request : sends_) {
        Outcome outcome;
        if (request == nullptr) continue;
        CommRun::test(request, &outcome);
        note(outcome.alive, true);
        if (outcome.done) request = nullptr;
      }
    });
  }
  // Reads completions even where no request is outstanding, as irecv() and isend() do it.
  void poll(bool at_sender) {
    call_sender(
        [&] { note(at_sender ? pair.sender->progress() : pair.receiver->progress(), at_sender); });
  }
  // ---- watchers
  void exchange() {
    for (const bool at_sender : {true, false}) {
      (void)connection(at_sender).link().on_readable(clock.now);
    }
  }
  void tick(std::chrono::milliseconds after) {
    clock.now += after;
    for (const bool at_sender : {true, false}) {
      transport::Recovery& recovery = this->recovery(at_sender);
      const transport::RecoverySteps::Due due = recovery.steps().on_tick(clock.now);
      if (due.stops != 0) recovery.steps().stop_pairs(due.stops);
      if (due.revives != 0) recovery.steps().revive_pairs(clock.now, due.revives);
      transport::PeerLink& link = connection(at_sender).link();
      link.on_tick(clock.now);
      check_link(at_sender);
    }
  }
  void set_port(bool at_sender, uint32_t rail, bool active) {
    pair.verbs.port(transport::RailsPair::name(at_sender ? 's' : 'r', static_cast<int>(rail)), 1)
        .active = active;
    ibv_async_event event{};
    event.event_type = active ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR;
    event.element.port_num = 1;
    report(at_sender, rail, event);
  }
  void report(bool at_sender, uint32_t rail, ibv_async_event event) {
    const transport::HcaContext& hca = *connection(at_sender).rails()[rail].device().hca;
    hca.on_event(event.event_type);
    (void)recovery(at_sender).steps().on_event(hca, event);
  }
  // ---- what goes wrong
  // Null where the QP was destroyed.
  void* queue_pair(bool at_sender, uint32_t index) const {
    return pair.verbs.find(qp_number(at_sender, index));
  }
  uint32_t qp_number(bool at_sender, uint32_t index) const {
    return (at_sender ? sending_end : receiving_end).qp[index].number;
  }

  // Lets everything work again, sends what is missing, and checks that all becomes complete, or
  // that the connection has failed for a reason.
  void finish() {
    constexpr int kSeconds = 200;  // the longest pause and the longest wait for a pair, with room
    pair.verbs.release();
    for (uint32_t rail = 0; rail < kRails; ++rail) {
      for (const bool at_sender : {true, false}) set_port(at_sender, rail, true);
    }
    const auto failed = [this] { return connection(true).failed() || connection(false).failed(); };
    for (int i = 0; i < kSeconds && !is_all_done() && !failed(); ++i) {
      for (int part = 0; part < 4; ++part) {
        exchange();
        send_what_is_missing();
        test_receiver();
        test_sender();
        tick(std::chrono::milliseconds(250));
      }
    }
    for (const bool at_sender : {true, false}) check_link(at_sender);
    check(forged || is_all_done() || failed(), "a message that was sent does not become complete");
  }

  transport::Connection& connection(bool at_sender) const {
    return at_sender ? pair.sender->connection() : pair.receiver->connection();
  }
  transport::Recovery& recovery(bool at_sender) const { return *connection(at_sender).recovery(); }

  transport::ManualClock clock;
  transport::RailsPair pair;
  // As they were connected: a lost pair may be without a QP.
  const wire::EndPoint sending_end = transport::end_of(*pair.sender);
  const wire::EndPoint receiving_end = transport::end_of(*pair.receiver);
  wire::Tables& sender_tables = transport::tables_of(*pair.sender);
  wire::Tables& receiver_tables = transport::tables_of(*pair.receiver);
  PageBuffer from;
  PageBuffer to;
  // The peer has broken the protocol, or a work request has failed in a way that ends every
  // connection: what becomes of the data is not judged.
  bool forged = false;
  // Bits of the pairs that something went wrong with; of all: the connection may fail.
  uint32_t touched = 0;
  static constexpr uint32_t kAllPairs = (1u << kRails) - 1;

 private:
  // Calls the sender's data path, and checks what it has posted against the slots that it found.
  template <class Call>
  void call_sender(Call call) {
    pair.verbs.forget_posted();
    const auto slots = sender_tables.ring;
    call();
    check_targets(slots);
  }
  // Since the last forget_posted().
  bool posts_chunks() const {
    return std::ranges::any_of(pair.verbs.posted(), [](const fake_verbs::Posted& work) {
      return transport::decode_work_id(work.wr_id).kind == transport::WorkKind::kChunk;
    });
  }
  void check_targets(const Slots& slots) const {
    for (const fake_verbs::Posted& work : pair.verbs.posted()) {
      const bool is_sender =
          std::any_of(sending_end.qp.begin(), sending_end.qp.begin() + sending_end.qps,
                      [&](const wire::QpAddress& qp) { return qp.number == work.qp_num; });
      if (is_sender) check_target(work, receiving_end.tables_address, slots, slots_of_held_);
    }
  }
  void check_data(const Receive& receive, const Outcome& outcome) const {
    for (int i = 0; i < receive.count; ++i) {
      check(outcome.sizes[i] >= 0 && static_cast<size_t>(outcome.sizes[i]) <= kRoom,
            "a receive has more bytes than room");
      if (forged) continue;
      check(receive.data[i] != nullptr, "a receive is complete although nothing was sent");
      check(static_cast<size_t>(outcome.sizes[i]) == receive.bytes[i],
            "a receive has a wrong size");
      const char* arrived = to.data.get() + (receive.first + i) * kRoom;
      check(std::memcmp(arrived, receive.data[i], receive.bytes[i]) == 0,
            "a receive is complete with wrong bytes");
    }
  }
  void note(bool alive, bool at_sender) {
    if (alive) return;
    check(connection(at_sender).failed(), "a call fails on a connection that is well");
  }
  void check_link(bool at_sender) {
    const transport::PeerLink& link = connection(at_sender).link();
    check_text(link.state_text());
    if (!link.failed()) return;
    const Error failure = link.failure();
    check_text(failure.text);
    check(!failure.text.empty(), "a failure has no text");
    if (forged) return;
    check(touched == kAllPairs, "the connection failed although a pair never did");
    check(failure.code != Code::kInternal, "an end finds that an honest one breaks the protocol");
  }
  void send_what_is_missing() {
    for (size_t i = current_; !forged && i < receives_.size() && i == current_; ++i) {
      for (int tag = 0; tag < receives_[i].count; ++tag) {
        if (receives_[i].data[tag] == nullptr) send(kShift, tag);
      }
    }
  }
  bool is_all_done() const {
    return std::ranges::all_of(receives_, &Receive::done) && flushes_.empty() &&
           std::ranges::all_of(sends_, [](const Request* request) { return request == nullptr; });
  }

  // The slots as they were when isend() took a message and posted nothing: it is held for its
  // group, or waits for a pair.
  std::vector<Slots> slots_of_held_;
  size_t buffers_ = 0;
  size_t current_ = 0;  // the receive into which the next message goes
  std::vector<Receive> receives_;
  std::vector<Request*> sends_;
  std::vector<Request*> flushes_;
};

}  // namespace gdr::fuzz
