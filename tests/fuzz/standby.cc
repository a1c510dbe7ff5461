// One rail that carries everything and two on standby, where the messages of a group are held and
// then posted as one chain.
#include "tests/fuzz/rails_script.h"

namespace gdr::fuzz {

namespace wire = transport::wire;

// Messages larger than the port's largest one have several chunks, although one rail carries them.
void run_standby(Input input) {
  RailsScript::run({.active = 1, .standby = 2, .max_message_bytes = 64 << 10}, input);
}

Seeds standby_seeds() {
  using enum RailsScript::Step;
  const auto polls = polls_of_both();
  const auto settles = Script().add(polls).add(polls);
  // The recovery has nothing to do any more, so that the group is held.
  const auto group = Script().add(settles).add(receive_of(3));
  const auto two_held = Script().add(group).add(send_of(64, 0)).add(send_of(128, 1));
  const auto chain = Script()
                         .add(group)
                         .bytes({kHold})
                         .add(send_of(64, 0))
                         .add(send_of(8, 2))
                         .add(send_of(256, 1));
  const auto recovers = Script().bytes({kRelease}).add(polls).add(polls).add(polls);
  const auto returns = Script().add(recovers).bytes({kTick, 12}).add(polls).add(recovers);
  // Both ends agree, and the receiver announces its buffers again, before the sender is called.
  const auto until_announced = Script().bytes(
      {kTestSender, kTestReceiver, kExchange, kTick, 2, kExchange, kTestReceiver, kPoll, 1});
  const auto fail = [](int end, int pair) { return Script().bytes({kReportQp, end, pair}); };
  const auto deliver = [](int count) { return Script().bytes({kDeliver, 0, 0, count}); };
  const auto slot = [](int number) { return Script().bytes({kForgeSlot, number, 0}); };
  return {
      {"group", Script().add(chain).add(recovers)},
      {"part-of-a-group", Script().add(two_held).bytes({kTestSender, kTestSender}).add(recovers)},
      {"several-chunks", Script().add(two_held).add(send_of(136 << 10, 2)).add(recovers)},
      {"lost-while-held", Script().add(two_held).add(fail(0, 0)).add(recovers)},
      {"lost-before-data", Script().add(chain).add(fail(0, 0)).add(recovers)},
      {"lost-in-the-middle", Script().add(chain).add(deliver(2)).add(fail(0, 0)).add(recovers)},
      {"lost-acknowledgement",
       Script().add(chain).add(deliver(1)).bytes({kFailWork, 0, 0, 11, 1}).add(recovers)},
      {"refused", Script().add(two_held).bytes({kRefuse, 0}).add(send_of(8, 2)).add(recovers)},
      {"port-down-while-held", Script().add(two_held).bytes({kSetPort, 0, 0, 0}).add(returns)},
      {"returns", Script().add(chain).add(fail(0, 0)).add(returns).add(two_held).add(recovers)},
      {"hca-fails", Script().add(chain).bytes({kFailHca, 1, 0, 0}).add(recovers)},
      {"forged-slot-while-held", Script()
                                     .add(two_held)
                                     .add(slot(1))
                                     .patch(offsetof(wire::ClearToSend, address), ~uint64_t{0})
                                     .add(recovers)},
      // A standby rail is lost, and what is held goes ahead of the next message.
      {"news-while-held",
       Script().add(two_held).bytes({kSetPort, 0, 1, 0}).add(send_of(8, 2)).add(recovers)},
      {"smaller-slot-of-a-lost-chain", Script()
                                           .add(chain)
                                           .add(fail(0, 0))
                                           .bytes({kRelease})
                                           .add(until_announced)
                                           .add(slot(0))
                                           .patch(offsetof(wire::ClearToSend, bytes), uint64_t{8})
                                           .add(recovers)},
      {"forged-group-while-held", Script()
                                      .add(two_held)
                                      .add(slot(0))
                                      .patch(offsetof(wire::ClearToSend, group), uint8_t{1})
                                      .add(send_of(8, 0))
                                      .add(recovers)},
  };
}

}  // namespace gdr::fuzz
