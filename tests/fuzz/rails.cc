// Several rails that carry chunks of each message, with one more on standby.
#include "tests/fuzz/rails_script.h"

namespace gdr::fuzz {

namespace wire = transport::wire;

void run_rails(Input input) { RailsScript::run({.active = 2, .standby = 1}, input); }

Seeds rails_seeds() {
  using enum RailsScript::Step;
  const auto receive = receive_of(1);
  const auto large = Script().add(receive).add(send_of(136 << 10));
  const auto held = Script().add(receive).bytes({kHold}).add(send_of(136 << 10));
  const auto polls = polls_of_both();
  const auto recovers = Script().bytes({kRelease}).add(polls).add(polls).add(polls);
  const auto waits = Script().bytes({kTick, 12}).add(polls);
  const auto returns = Script().add(recovers).add(waits).add(waits).add(polls);
  const auto fail = [](int end, int pair) { return Script().bytes({kReportQp, end, pair}); };
  const auto entry = [](int end, int pair) { return Script().bytes({kForgeEntry, end, pair}); };
  const auto frame = [](int end, int pair) { return Script().bytes({kForgeFrame, end, pair}); };
  const auto deliver = [](int end, int pair) { return Script().bytes({kDeliver, end, pair, 1}); };
  return {
      {"message", Script().add(large).add(polls)},
      {"group",
       Script().bytes({kReceive, 2}).add(send_of(64, 2)).add(send_of(8, 0)).add(send_of(70000, 1))},
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
                                 .add(send_of(1000))
                                 .add(polls)},
      {"returns", Script().add(held).add(fail(0, 0)).add(returns).add(large).add(recovers)},
      // Pair 1 returns unmeasured, so that it takes chunks at once.
      {"lost-again", Script()
                         .add(receive)
                         .bytes({kHold})
                         .add(send_of(64))
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
                         .add(send_of(136 << 10))
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
                    .add(send_of(64))
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
