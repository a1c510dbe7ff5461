// Clear-to-send slots, which a receiver writes into the sender's memory by RDMA whenever it likes.
// Whatever they are, the sender writes only to the memory that the slot of the message names.
#include <array>

#include "tests/fuzz/comm_run.h"

namespace gdr::fuzz {
namespace {

namespace wire = transport::wire;
using transport::Request;

enum SlotStep : uint8_t {
  kAnnounce,   // group, tag, bytes, then patches: the slot after the last
  kOverwrite,  // slot (16 bits), then patches
  kSend,       // bytes, tag
  kTestSends,
  kHold,
  kDeliver,
  kReceive,  // the receiver posts a receive of its own
  kSlotSteps,
};

struct SenderRun : CommRun {
  static constexpr int kMaxSteps = 96;

  using CommRun::CommRun;

  wire::Tables& tables = transport::tables_of(sender);
  const uint64_t base = transport::end_of(sender).sequence_base;
  const uint64_t target_tables = transport::end_of(receiver).tables_address;
  uint64_t announced = 0;
  std::vector<Request*> sends;
  // The slots as they were when isend() took a message and posted nothing: it is held for its
  // group, and goes where its slot named it then.
  std::vector<std::array<wire::ClearToSend, wire::kSlots>> slots_of_held;

  void step(Input& input) {
    switch (input.below(kSlotSteps)) {
      case kAnnounce:
        return announce(input);
      case kOverwrite: {
        const uint32_t slot = wire::slot_of(input.number<uint16_t>());
        return input.patch(&tables.ring[slot]);
      }
      case kSend: {
        const size_t bytes = input.number<uint16_t>() % (kBufferBytes + 1);
        return send(bytes, input.byte());
      }
      case kTestSends:
        return test_sends();
      case kHold:
        return fabric.verbs.hold();
      case kDeliver:
        return fabric.verbs.release();
      default: {
        Request* receive = nullptr;
        const auto buffer = to.receive(64, input.byte());
        (void)receiver.irecv(&buffer, 1, &receive);  // never tested: it may wait for ever
      }
    }
  }

  void announce(Input& input) {
    wire::ClearToSend slot{};
    const uint8_t group = input.byte();
    slot.tag = input.byte();
    slot.bytes = input.number<uint16_t>() % (kBufferBytes + 1);
    slot.address = reinterpret_cast<uint64_t>(to.data.get());
    slot.rkey = transport::rkeys_of(to.memory->keys);
    wire::set_group(&slot, group, 0);
    slot.sequence = base + announced;
    input.patch(&slot);
    tables.ring[wire::slot_of(announced++)] = slot;
  }

  void send(size_t bytes, int tag) {
    fabric.verbs.forget_posted();
    const auto slots = tables.ring;  // as the sender finds them
    Request* request = nullptr;
    const bool alive = sender.isend(from.data.get(), bytes, tag, *from.memory, &request);
    if (!alive) on_failure();
    if (request != nullptr) sends.push_back(request);
    const auto posted = posted_by_sender();
    for (const fake_verbs::Posted& work : posted) check_target(work, slots);
    if (!posted.empty()) return slots_of_held.clear();
    if (request != nullptr) slots_of_held.push_back(slots);
  }

  // That a slot's buffer or the receiver's table of sizes holds what is written.
  void check_target(const fake_verbs::Posted& work,
                    const std::array<wire::ClearToSend, wire::kSlots>& slots) const {
    auto is_within = [&](uint64_t begin, uint64_t bytes) {
      const uint64_t offset = work.remote_address - begin;
      return offset <= bytes && work.bytes <= bytes - offset;
    };
    if (work.bytes == 0 || is_within(target_tables, sizeof(wire::Tables))) return;
    const auto is_named = [&](const auto& by) {
      return std::ranges::any_of(
          by, [&](const wire::ClearToSend& slot) { return is_within(slot.address, slot.bytes); });
    };
    check(is_named(slots) || std::ranges::any_of(slots_of_held, is_named),
          "the sender writes to memory that no slot names");
  }

  void test_sends() {
    std::erase_if(sends, [this](Request* request) {
      transport::Outcome outcome;
      const bool again = test(request, &outcome);
      if (!outcome.alive) on_failure();
      return !again;
    });
  }

  void on_failure() {
    check(sender.connection().failed(), "a call fails on a connection that is well");
    check_text(transport::failure_of(sender).text);
  }
};

}  // namespace

void run_slots(Input input) {
  SenderRun run(input.byte());
  for (int i = 0; i < SenderRun::kMaxSteps && !input.empty(); ++i) run.step(input);
  run.fabric.verbs.release();
  for (int i = 0; i < 4; ++i) run.test_sends();
}

Seeds slots_seeds() {
  auto announce = [](int group, int tag, uint16_t bytes) {
    return Script().bytes({kAnnounce, group, tag}).number(bytes);
  };
  auto send = [](uint16_t bytes, int tag) {
    return Script().bytes({kSend}).number(bytes).bytes({tag, kTestSends});
  };
  auto form = [](int bits) { return Script().bytes({bits}); };
  const auto one = announce(1, 7, 64).no_patch();
  return {
      {"one", form(0).add(one).add(send(64, 7))},
      {"group", form(kFourQps)
                    .add(announce(2, 1, 64).no_patch())
                    .add(announce(2, 2, 64).no_patch())
                    .add(send(64, 2))
                    .add(send(8, 1))
                    .add(send(8, 1))},
      {"split", form(kFourQps | kSplit).add(announce(1, 7, 4096).no_patch()).add(send(4096, 7))},
      {"separate-ends",
       form(kSeparateEnds).add(announce(1, 7, 4096).no_patch()).add(send(4096, 7))},
      {"two-rails",
       form(kSeveralRails | kSplit).add(announce(1, 7, 4096).no_patch()).add(send(4096, 7))},
      {"small-writes", form(kSmallWrites).add(announce(1, 7, 4096).no_patch()).add(send(4096, 7))},
      {"users-buffer",
       form(kSmallWrites)
           .add(announce(1, 7, 4096)
                    .patch(offsetof(wire::ClearToSend, flags), uint8_t{wire::kUsersBuffer}))
           .add(send(4096, 7))},
      {"oversized", form(0).add(one).add(send(65, 7))},
      {"empty-group", form(0).add(announce(0, 7, 64).no_patch()).add(send(64, 7))},
      {"large-group", form(0).add(announce(9, 7, 64).no_patch()).add(send(64, 7))},
      {"unknown-flags",
       form(0)
           .add(announce(1, 7, 64).patch(offsetof(wire::ClearToSend, flags), uint8_t{4}))
           .add(send(64, 7))},
      {"wrong-key",
       form(0)
           .add(announce(1, 7, 64).patch(offsetof(wire::ClearToSend, rkey), uint32_t{1}))
           .add(send(64, 7))},
      {"far-address",
       form(0)
           .add(announce(1, 7, 64).patch(offsetof(wire::ClearToSend, address), ~uint64_t{0}))
           .add(send(64, 7))},
      {"group-that-changes", form(0)
                                 .add(announce(4, 1, 64).no_patch())
                                 .add(announce(4, 2, 64).no_patch())
                                 .add(send(8, 2))
                                 .bytes({kOverwrite, 0, 0})
                                 .patch(offsetof(wire::ClearToSend, group), uint8_t{1})
                                 .add(send(8, 1))
                                 .add(send(8, 1))},
      {"held", form(0).add(one).bytes({kHold}).add(send(64, 7)).bytes({kDeliver, kTestSends})},
      {"real", form(0).bytes({kReceive, 7}).add(send(64, 7))},
  };
}

}  // namespace gdr::fuzz
