// Clear-to-send slots, which a receiver writes into the sender's memory by RDMA whenever it likes.
// Whatever they are, the sender writes only to the memory that the slot of the message names.
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
  std::vector<Slots> slots_of_held;

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
        (void)receiver.irecv(transport::Arrays(buffer).get(),
                             &receive);  // never tested: it may wait for ever
      }
    }
  }

  void announce(Input& input) {
    wire::ClearToSend slot{};
    const uint8_t group = input.byte();
    slot.tag = input.byte();
    slot.bytes = input.number<uint16_t>() % (kBufferBytes + 1);
    slot.address = reinterpret_cast<uint64_t>(to.data.get());
    slot.rkey = to.memory->keys.rkeys();
    slot.group_and_flags = group;
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
    for (const fake_verbs::Posted& work : posted) {
      check_target(work, target_tables, slots, slots_of_held);
    }
    if (!posted.empty()) return slots_of_held.clear();
    if (request != nullptr) slots_of_held.push_back(slots);
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

}  // namespace gdr::fuzz
