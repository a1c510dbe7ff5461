// Several rails, and what may go wrong with them: pairs that are lost and return at any moment, in
// any order of what both ends do about it. And a peer that breaks the protocol of the recovery by
// its frames, its entries of the tables, its slots and its immediates.
#include <endian.h>

#include "tests/fuzz/rails_run.h"
#include "tests/fuzz/socket_peer.h"
#include "transport/data/failure_class.h"

namespace gdr::fuzz {
namespace {

namespace wire = transport::wire;
using fake_verbs::Call;

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
        const uint32_t slot = wire::slot_of(input.number<uint16_t>());
        return input.patch(&sender_tables.ring[slot]);
      }
      case kForgeSize: {
        forged = true;
        const uint32_t slot = wire::slot_of(input.number<uint16_t>());
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
        forged |= transport::classify_failure(status) == transport::FailureClass::kConnectionLost;
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
    wire::PairStatement statement{};
    statement.serial_first = statement.serial_last = 1;
    statement.step = 1;
    statement.pair = static_cast<uint16_t>(index);
    if (what == kForgeEntry) {
      wire::Tables& tables = at_sender ? sender_tables : receiver_tables;
      wire::PairStatement& entry = at_sender ? tables.of_receiver[index] : tables.of_sender[index];
      if (entry.serial_first == 0) entry = statement;
      return input.patch(&entry);
    }
    input.patch(&statement);
    const auto* bytes = reinterpret_cast<const uint8_t*>(&statement);
    send_bytes(connection(!at_sender).link().fd(),
               frame_of(static_cast<uint8_t>(wire::FrameKind::kPair), {bytes, sizeof(statement)}));
  }
};

}  // namespace

void run_rails(Input input) {
  RailsScript run;
  for (int i = 0; i < RailsScript::kMaxSteps && !input.empty(); ++i) run.step(input);
  run.finish();
}

Seeds rails_seeds() {
  using enum RailsScript::Step;
  auto send = [](int bytes, int tag = 0) {
    return Script().bytes({kSend}).number(static_cast<uint16_t>(bytes / 4)).bytes({tag});
  };
  const auto receive = Script().bytes({kReceive, 0});
  const auto large = Script().add(receive).add(send(136 << 10));
  const auto held = Script().add(receive).bytes({kHold}).add(send(136 << 10));
  const auto polls =
      Script().bytes({kTestReceiver, kTestSender, kPoll, 0, kPoll, 1, kExchange, kTick, 2});
  const auto recovers = Script().bytes({kRelease}).add(polls).add(polls).add(polls);
  const auto waits = Script().bytes({kTick, 12}).add(polls);
  const auto returns = Script().add(recovers).add(waits).add(waits).add(polls);
  const auto fail = [](int end, int pair) { return Script().bytes({kReportQp, end, pair}); };
  const auto entry = [](int end, int pair) { return Script().bytes({kForgeEntry, end, pair}); };
  const auto frame = [](int end, int pair) { return Script().bytes({kForgeFrame, end, pair}); };
  const auto deliver = [](int end, int pair) { return Script().bytes({kDeliver, end, pair, 1}); };
  return {
      {"message", Script().add(large).add(polls)},
      {"group", Script().bytes({kReceive, 2}).add(send(64, 2)).add(send(8, 0)).add(send(70000, 1))},
      {"lost-before-data", Script().add(held).add(fail(0, 0)).add(recovers)},
      {"lost-after-arrival", Script().add(held).add(deliver(0, 0)).add(fail(0, 0)).add(recovers)},
      {"lost-acknowledgement",
       Script().add(held).bytes({kFailWork, 0, 0, 11, 1}).add(polls).add(recovers)},
      {"lost-silently", Script().add(held).bytes({kFailQp, 1, 0}).add(recovers)},
      {"lost-clear-to-send", Script()
                                 .bytes({kHold})
                                 .add(receive)
                                 .add(fail(1, 0))
                                 .add(recovers)
                                 .add(send(1000))
                                 .add(polls)},
      {"returns", Script().add(held).add(fail(0, 0)).add(returns).add(large).add(recovers)},
      // Pair 1 returns unmeasured, so that it takes chunks at once.
      {"lost-again", Script()
                         .add(receive)
                         .bytes({kHold})
                         .add(send(64))
                         .add(fail(0, 1))
                         .add(returns)
                         .add(held)
                         .add(deliver(0, 1))
                         .add(fail(1, 1))
                         .add(returns)
                         .add(large)},
      {"port-flaps", Script()
                         .add(receive)
                         .bytes({kSetPort, 0, 1, 0})
                         .add(send(136 << 10))
                         .add(recovers)
                         .bytes({kSetPort, 0, 1, 1})
                         .add(returns)},
      {"both-ends", Script().add(held).add(fail(0, 0)).add(fail(1, 1)).add(returns)},
      {"all-rails", Script().add(held).add(fail(0, 0)).add(fail(1, 1)).add(fail(0, 2))},
      {"hca-fails", Script().add(held).bytes({kFailHca, 1, 0, 0}).add(recovers).add(large)},
      {"data-lost", Script().add(large).bytes({kTestSender, kFailHca, 1, 0, 1}).add(recovers)},
      {"refused", Script().bytes({kRefuse, 0}).add(large).bytes({kRefuse, 2}).add(returns)},
      {"flush", Script()
                    .add(receive)
                    .add(send(64))
                    .add(polls)
                    .bytes({kHold, kFlush})
                    .add(fail(1, 0))
                    .add(polls)
                    .add(polls)
                    .add(polls)
                    .add(recovers)},
      {"forged-down", Script().add(large).add(entry(1, 0)).no_patch().add(recovers)},
      {"forged-count", Script()
                           .add(held)
                           .add(fail(0, 0))
                           .add(frame(0, 0))
                           .patch(offsetof(wire::PairStatement, arrived), uint64_t{1})
                           .add(recovers)},
      {"forged-step", Script().add(frame(0, 1)).patch(4, uint32_t{2}).add(recovers)},
      {"forged-pair", Script().add(frame(1, 0)).patch(12, uint16_t{7}).add(recovers)},
      {"forged-serial", Script()
                            .add(fail(0, 0))
                            .add(recovers)
                            .add(entry(0, 0))
                            .patch(offsetof(wire::PairStatement, step), uint32_t{3})
                            .add(returns)},
      {"forged-slot", Script()
                          .add(held)
                          .bytes({kForgeSlot, 0, 0})
                          .patch(offsetof(wire::ClearToSend, address), ~uint64_t{0})
                          .add(fail(0, 0))
                          .add(recovers)},
      {"forged-epoch", Script()
                           .add(receive)
                           .bytes({kForgeImmediate, 0, 0})
                           .number(uint32_t{1} << 20)
                           .number(uint32_t{8})
                           .add(recovers)},
  };
}

}  // namespace gdr::fuzz
