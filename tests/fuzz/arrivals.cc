// Immediates and sizes, which a sender chooses for the completions at the receiver. Whatever they
// are, no receive completes with more bytes than it has room for.
#include <endian.h>

#include <array>
#include <span>

#include "tests/fuzz/comm_run.h"

namespace gdr::fuzz {
namespace {

namespace wire = transport::wire;
using transport::Request;

enum ArrivalStep : uint8_t {
  kPost,       // buffers - 1, then the bytes of each (16 bits)
  kArriveFor,  // QP, buffer number from the oldest, chunks, change of the stamp, bytes
  kArriveAny,  // QP, immediate, bytes (32 bits each)
  kWriteSize,  // buffer number from the oldest, bytes (64 bits)
  kTestReceives,
  kSendMessage,  // a message of the real sender; bytes
  kFlush,
  kFailQp,  // QP
  kArrivalSteps,
};

struct Receive {
  Request* request;
  int count;
  std::array<uint16_t, wire::kMaxGroup> bytes;
};

struct ReceiverRun : CommRun {
  static constexpr int kMaxSteps = 96;

  explicit ReceiverRun(uint8_t form) : CommRun(form) { to.memory->host = false; }

  wire::Tables& tables = transport::tables_of(receiver);
  const uint16_t qps = transport::end_of(receiver).qps;
  uint64_t first = 0;  // number of the oldest buffer that has not been tested as done
  uint64_t posted = 0;
  std::vector<Receive> receives;
  std::vector<Request*> flushes;
  std::vector<Request*> sends;
  bool other_epoch = false;  // an immediate of another epoch of the pair arrived
  bool broken = false;       // a queue pair: what arrives over it may be left alone
  bool failed = false;

  void step(Input& input) {
    switch (input.below(kArrivalSteps)) {
      case kPost:
        return post(input);
      case kArriveFor: {
        const uint32_t qp = any_qp(input);
        const uint64_t buffer = first + input.byte();
        const uint32_t chunks = 1 + input.below(wire::kMaxQps);
        const uint8_t change = input.byte();
        const uint32_t stamp = wire::stamp_of(buffer) ^ change;
        const uint32_t bytes = input.number<uint16_t>();
        const uint8_t size = input.byte();  // 1: in the table, 2: coded
        wire::Immediate immediate{wire::slot_of(buffer), chunks, stamp, size == 1};
        if (size == 2) {
          immediate.size_is_coded = true;
          immediate.size_code = input.number<uint16_t>() % (1u << wire::kSizeCodeBits);
        }
        const bool arrived = arrive(qp, wire::encode(immediate), bytes);
        other_epoch = other_epoch || (arrived && change >> 4 != 0);
        return;
      }
      case kArriveAny: {
        const uint32_t qp = any_qp(input);
        const auto immediate = input.number<uint32_t>();
        (void)arrive(qp, immediate, input.number<uint32_t>());
        return;
      }
      case kWriteSize: {
        const uint32_t slot = wire::slot_of(first + input.byte());
        tables.sizes[slot] = input.number<uint64_t>();
        return;
      }
      case kTestReceives:
        return test_all();
      case kSendMessage:
        return send(input.number<uint16_t>() % kBufferBytes);
      case kFlush:
        return flush();
      default:
        broken = true;
        return fabric.verbs.break_qp(any_qp(input));
    }
  }

  uint32_t any_qp(Input& input) const { return transport::qp_number(receiver, input.byte() % qps); }

  void post(Input& input) {
    Receive receive{nullptr, 1 + input.below(wire::kMaxGroup), {}};
    std::array<transport::ReceiveBuffer, wire::kMaxGroup> buffers;
    for (int i = 0; i < receive.count; ++i) {
      receive.bytes[i] = input.number<uint16_t>() % kBufferBytes;
      buffers[i] = to.receive(receive.bytes[i], i);
    }
    const transport::Arrays arrays(std::span(buffers).first(static_cast<size_t>(receive.count)));
    note(receiver.irecv(arrays.get(), &receive.request));
    if (receive.request == nullptr) return;
    check(!failed, "a failed connection receives");
    posted += receive.count;
    receives.push_back(receive);
  }

  // Returns whether it has arrived: without a receive, the HCA would wait.
  bool arrive(uint32_t qp, uint32_t immediate, uint32_t bytes) {
    if (fabric.verbs.posted_receives(qp) == 0) return false;
    fabric.verbs.inject_arrival(qp, htobe32(immediate), bytes);
    return true;
  }

  void send(size_t bytes) {
    Request* request = nullptr;
    (void)sender.isend(from.data.get(), bytes, 0, *from.memory, &request);
    if (request != nullptr) sends.push_back(request);
  }

  void flush() {
    const auto buffer = to.receive(64);
    Request* request = nullptr;
    if (flushes.size() < transport::Flushes::kRequests) {
      note(receiver.iflush(transport::Arrays(buffer).get(), &request));
    }
    if (request != nullptr) flushes.push_back(request);
  }

  void test_all() {
    std::erase_if(receives, [this](const Receive& receive) {
      transport::Outcome outcome;
      const bool again = test(receive.request, &outcome);
      note(outcome.alive);
      for (int i = 0; outcome.done && i < receive.count; ++i) {
        check(outcome.sizes[i] >= 0 && outcome.sizes[i] <= receive.bytes[i],
              "a receive has more bytes than room");
      }
      if (outcome.done) first += receive.count;
      return !again;
    });
    for (auto* requests : {&flushes, &sends}) {
      std::erase_if(*requests, [](Request* request) {
        transport::Outcome outcome;
        return !test(request, &outcome);
      });
    }
  }

  void note(bool alive) {
    if (alive) return;
    failed = true;
    check(receiver.connection().failed(), "a call fails on a connection that is well");
    check_text(transport::failure_of(receiver).text);
  }
};

}  // namespace

void run_arrivals(Input input) {
  ReceiverRun run(input.byte());
  for (int i = 0; i < ReceiverRun::kMaxSteps && !input.empty(); ++i) run.step(input);
  for (int i = 0; i < 4; ++i) run.test_all();
  // A poll reads 8 completions of a rail at most.
  for (int i = 0; i <= ReceiverRun::kMaxSteps / 8; ++i) run.note(run.receiver.progress());
  check(run.failed || run.broken || !run.other_epoch, "an immediate of another epoch is taken");
}

}  // namespace gdr::fuzz
