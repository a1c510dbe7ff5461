#include "tools/conformance/exchange.h"

#include <deque>

namespace gdr::tools {
namespace {
// A message's buffer at one end, with the data that is expected in it.
struct Slot {
  MessageBuffer buffer;
  Pattern pattern;
  size_t bytes;
};

// Collects the ops of all groups and connections, runs them together, and then verifies the
// receives.
class Exchange {
 public:
  Exchange(Session& session, ExchangeStyle style)
      : session_(session), style_(style), traffic_(session, style.traffic) {}

  void add(const TestConnection& connection, size_t index, const std::vector<Group>& groups) {
    for (size_t i = 0; i < groups.size(); ++i) {
      if (connection.recv_comm() != nullptr) add_receive(connection, index, i, groups[i]);
      if (connection.send_comm() != nullptr) add_sends(connection, index, i, groups[i]);
    }
  }

  void run() {
    traffic_.run();
    for (const Receive& receive : receives_) verify(receive);
  }

 private:
  struct Receive {
    const Op* op;
    std::vector<Slot*> slots;
  };
  // Data that is unique for each message of a run; both ends compute it, so nothing else is
  // exchanged.
  Pattern pattern(size_t connection, size_t group, size_t slot) const {
    return Pattern(session_.options().seed, connection, group * 16 + slot);
  }

  void add_receive(const TestConnection& connection, size_t number, size_t index,
                   const Group& group) {
    Op op;
    op.kind = Op::Kind::kRecv;
    op.comm = connection.recv_comm();
    Receive receive;
    for (size_t i = 0; i < group.slots.size(); ++i) {
      const Message& message = group.slots[i];
      size_t capacity = std::max(message.bytes, message.capacity);
      Slot& slot = slots_.emplace_back(
          Slot{MessageBuffer(session_, op.kind, op.comm, capacity, style_.misalign),
               pattern(number, index, i), message.bytes});
      const Op of_slot = slot.buffer.op();
      op.data.push_back(of_slot.data[0]);
      op.sizes.push_back(capacity);
      op.tags.push_back(message.tag);
      op.mhandles.push_back(of_slot.mhandles[0]);
      if (style_.phandle) op.phandles.push_back(style_.phandle());
      receive.slots.push_back(&slot);
    }
    receive.op = &traffic_.add(std::move(op));
    receives_.push_back(std::move(receive));
  }

  void add_sends(const TestConnection& connection, size_t number, size_t index,
                 const Group& group) {
    for (size_t i = 0; i < group.slots.size(); ++i) {
      size_t which = group.send_order.empty() ? i : group.send_order[i];
      const Message& message = group.slots[which];
      Slot& slot =
          slots_.emplace_back(Slot{MessageBuffer(session_, Op::Kind::kSend, connection.send_comm(),
                                                 message.bytes, style_.misalign),
                                   pattern(number, index, which), message.bytes});
      slot.pattern.fill(slot.buffer.data(), message.bytes);
      Op op = slot.buffer.op();
      op.tags = {message.tag};
      if (style_.phandle) op.phandles = {style_.phandle()};
      traffic_.add(std::move(op));
    }
  }

  void verify(const Receive& receive) {
    for (size_t i = 0; i < receive.slots.size(); ++i) {
      const Slot& slot = *receive.slots[i];
      if (!style_.traffic.null_sizes) {
        session_.require(receive.op->actual[i] == static_cast<int>(slot.bytes),
                         "test() reported size {} for buffer {} of {} of a receive; {} bytes were "
                         "sent into its {}",
                         receive.op->actual[i], i, receive.slots.size(), slot.bytes,
                         slot.buffer.bytes());
      }
      size_t wrong = slot.pattern.first_mismatch(slot.buffer.data(), slot.bytes);
      session_.require(wrong == slot.bytes,
                       "byte {} of {} is wrong, in buffer {} of {} of a receive with tag {}", wrong,
                       slot.bytes, i, receive.slots.size(), receive.op->tags[i]);
      std::string damage = slot.buffer.damage(slot.bytes);
      session_.require(damage.empty(), "{}", damage);
    }
  }

  Session& session_;
  ExchangeStyle style_;
  Traffic traffic_;
  std::deque<Slot> slots_;
  std::vector<Receive> receives_;
};

}  // namespace

Group single(size_t bytes, size_t capacity, int tag) {
  return Group{{Message{bytes, capacity, tag}}, {}};
}

void exchange(Session& session, const TestConnection& connection, const std::vector<Group>& groups,
              ExchangeStyle style) {
  Exchange run(session, style);
  run.add(connection, 0, groups);
  run.run();
}

void exchange_all(Session& session, const std::vector<TestConnection>& connections,
                  const std::vector<Group>& groups, ExchangeStyle style) {
  Exchange run(session, style);
  for (size_t i = 0; i < connections.size(); ++i) run.add(connections[i], i, groups);
  run.run();
}

std::vector<size_t> interesting_sizes(Random& random, size_t random_count) {
  std::vector<size_t> sizes = {0,     1,      2,       3,       7,       8,       63,     64,
                               127,   128,    129,     1023,    4095,    4096,    4097,   65535,
                               65537, 131072, 1000003, 4194303, 4194304, 4194305, 5242883};
  for (size_t i = 0; i < random_count; ++i) {
    // Spread over the orders of magnitude, up to 2 MiB.
    uint64_t bits = 1 + random.below(21);
    sizes.push_back(random.below(uint64_t{1} << bits));
  }
  return sizes;
}

}  // namespace gdr::tools
