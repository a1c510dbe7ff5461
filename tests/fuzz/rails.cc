// A script of what both ends of a connection of several rails do, and of what may go wrong: pairs
// that are lost and return at any moment, in any order of what both ends do about it, and a peer
// that breaks the protocol by its frames, its entries of the tables, its slots and its immediates.
#include <endian.h>

#include "tests/fuzz/rails_run.h"
#include "tests/fuzz/socket_peer.h"
#include "transport/pairs/work_id.h"

namespace gdr::fuzz {
namespace {

struct RailsScript : RailsRun {
  enum Step : uint8_t {
    // what both ends do
    kReceive,  // a receive of so many buffers - 1
    kSend,     // bytes / 4 (16 bits), tag
    kFlush,
    kTestReceiver,
    kTestSender,
    kPoll,      // end
    kExchange,  // what is on the socket arrives
    kTick,      // after so many tenths of a second
    kHold,
    kRelease,
    kDeliver,  // end, pair, how many
    // what goes wrong
    kFailWork,  // end, pair, status, 1: it arrives all the same
    kFailQp,    // end, pair
    kReportQp,  // end, pair: the QP fails, and the HCA reports it
    kFailHca,   // end, rail, 1: with the completions that nobody has polled
    kSetPort,   // end, rail, state
    kRefuse,    // the call that fails
    // what a peer makes up
    kForgeFrame,      // end that takes it, pair, then patches of a statement
    kForgeEntry,      // end whose tables it is in, pair, then patches of a statement
    kForgeSlot,       // slot (16 bits), then patches
    kForgeSize,       // slot (16 bits), bytes (64 bits)
    kForgeImmediate,  // an end that does not count, pair, immediate, bytes (32 bits each)
    kRailsSteps,
  };
  static constexpr int kMaxSteps = 128;

  using RailsRun::RailsRun;

  // Follows an input to its end, and finishes.
  static void run(const RailsShape& shape, Input input) {
    RailsScript script(shape);
    for (int i = 0; i < kMaxSteps && !input.empty(); ++i) script.step(input);
    script.finish();
  }

  void step(Input& input) {
    const uint8_t what = input.below(kRailsSteps);
    switch (what) {
      case kReceive:
        return receive(1 + input.below(3));
      case kSend: {
        const size_t bytes = size_t{4} * input.number<uint16_t>() % (kRoom + 1);
        return send(bytes, input.below(3));
      }
      case kFlush:
        return flush();
      case kTestReceiver:
        return test_receiver();
      case kTestSender:
        return test_sender();
      case kPoll:
        return poll(input.below(2) == 0);
      case kExchange:
        return exchange();
      case kTick:
        return tick(std::chrono::milliseconds(100 * input.byte()));
      case kHold:
        return pair.verbs.hold();
      case kRelease:
        return pair.verbs.release();
      case kRefuse:
        return refuse(input.below(4));
      case kForgeSlot: {
        forged = true;
        const uint32_t slot = transport::wire::slot_of(input.number<uint16_t>());
        return input.patch(&sender_tables.ring[slot]);
      }
      case kForgeSize: {
        forged = true;
        const uint32_t slot = transport::wire::slot_of(input.number<uint16_t>());
        receiver_tables.sizes[slot] = input.number<uint64_t>();
        return;
      }
      default: {
        const bool at_sender = input.below(2) == 0;
        const uint32_t index = input.below(kRails);
        return what < kForgeFrame ? break_pair(what, at_sender, index, input)
                                  : forge(what, at_sender, index, input);
      }
    }
  }

  void refuse(uint8_t what) {
    using fake_verbs::Call;
    constexpr Call kCalls[] = {Call::kPostSend, Call::kPostRecv, Call::kModifyToError,
                               Call::kModifyToRtr};
    touched = kAllPairs;
    pair.verbs.fail_call(kCalls[what], EIO);
  }

  void break_pair(uint8_t what, bool at_sender, uint32_t index, Input& input) {
    if (what == kSetPort) {
      const bool active = input.byte() != 0;
      touched |= active ? 0 : 1u << index;
      return set_port(at_sender, index, active);
    }
    if (what == kFailHca) return fail_hca(at_sender, index, input.byte() == 1);
    if (queue_pair(at_sender, index) == nullptr) return;
    const uint32_t qp = qp_number(at_sender, index);
    switch (what) {
      case kDeliver:
        return (void)pair.verbs.deliver_on(qp, input.byte());
      case kFailWork: {
        const auto status = static_cast<ibv_wc_status>(1 + input.below(23));
        forged |= !transport::loses_pair(status);
        pair.verbs.fail_transfer(status, 0, input.byte() == 1);
        const bool of_this_pair = pair.verbs.deliver_on(qp) == 1;
        touched |= of_this_pair ? 1u << index : kAllPairs;  // else the next one of any pair fails
        return;
      }
      default:
        touched |= 1u << index;
        pair.verbs.break_qp(qp);
        if (what != kReportQp) return;
        ibv_async_event event{};
        event.event_type = IBV_EVENT_QP_FATAL;
        event.element.qp = static_cast<ibv_qp*>(queue_pair(at_sender, index));
        return report(at_sender, index, event);
    }
  }

  void fail_hca(bool at_sender, uint32_t rail, bool loses_completions) {
    touched |= 1u << rail;
    if (queue_pair(at_sender, rail) != nullptr) {
      const uint32_t qp = qp_number(at_sender, rail);
      pair.verbs.break_qp(qp);
      // The connection has to fail where they were of data that had been acknowledged.
      if (loses_completions && pair.verbs.drop_completions(qp) > 0) touched = kAllPairs;
    }
    ibv_async_event event{};
    event.event_type = IBV_EVENT_DEVICE_FATAL;
    report(at_sender, rail, event);
  }

  void forge(uint8_t what, bool at_sender, uint32_t index, Input& input) {
    forged = true;
    if (what == kForgeImmediate) {
      const auto immediate = input.number<uint32_t>();
      const auto bytes = input.number<uint32_t>();
      if (queue_pair(false, index) == nullptr) return;
      const uint32_t qp = qp_number(false, index);
      if (pair.verbs.posted_receives(qp) > 0) {
        pair.verbs.inject_arrival(qp, htobe32(immediate), bytes);
      }
      return;
    }
    transport::wire::PairStatement statement{};
    statement.serial_first = statement.serial_last = 1;
    statement.step = 1;
    statement.pair = static_cast<uint16_t>(index);
    if (what == kForgeEntry) {
      transport::wire::Tables& tables = at_sender ? sender_tables : receiver_tables;
      transport::wire::PairStatement& entry =
          at_sender ? tables.pairs[index].of_receiver : tables.pairs[index].of_sender;
      if (entry.serial_first == 0) entry = statement;
      return input.patch(&entry);
    }
    input.patch(&statement);
    const auto* bytes = reinterpret_cast<const uint8_t*>(&statement);
    send_bytes(connection(!at_sender).link().fd(),
               frame_of(static_cast<uint8_t>(transport::wire::FrameKind::kPair),
                        {bytes, sizeof(statement)}));
  }
};

}  // namespace

// Several rails that carry chunks of each message, with one more on standby.
void run_rails(Input input) { RailsScript::run({.active = 2, .standby = 1}, input); }

// One rail that carries everything and two on standby, where the messages of a group are held and
// then posted as one chain. Messages larger than the port's largest one have several chunks,
// although one rail carries them.
void run_standby(Input input) {
  RailsScript::run({.active = 1, .standby = 2, .max_message_bytes = 64 << 10}, input);
}

}  // namespace gdr::fuzz
