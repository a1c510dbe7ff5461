// C3x: requests: their number, their order, and the value of *request.
#include <thread>

#include "tools/conformance/case.h"
#include "tools/conformance/exchange.h"
#include "tools/conformance/guarded_buffer.h"

namespace gdr::tools {
namespace {
constexpr size_t kRequestBytes = 64;
constexpr size_t kUnlimited = 4096;  // a plugin that accepts this many is taken to have no limit

struct Posted {
  GuardedBuffer buffer{kRequestBytes};
  std::unique_ptr<CheckedRegistration> registration;
  Op op;
};

// Returns a registered buffer with an op that is not posted yet.
std::unique_ptr<Posted> prepare(Session& s, void* comm, Op::Kind kind) {
  auto made = std::make_unique<Posted>();
  made->registration =
      std::make_unique<CheckedRegistration>(s, comm, made->buffer.data(), kRequestBytes);
  made->op.kind = kind;
  made->op.comm = comm;
  made->op.data = {made->buffer.data()};
  made->op.sizes = {kRequestBytes};
  made->op.tags = {0};
  made->op.mhandles = {made->registration->get()};
  return made;
}

// Posts receives until the plugin has no more room; returns how many it accepted.
size_t fill_with_receives(Session& s, Traffic& traffic, void* comm,
                          std::vector<std::unique_ptr<Posted>>& posted) {
  auto promised = static_cast<size_t>(s.contract().max_requests);
  Deadline deadline(s, s.options().timeout_seconds);
  while (posted.size() < kUnlimited) {
    auto next = prepare(s, comm, Op::Kind::kRecv);
    Op& op = traffic.add(next->op);
    bool accepted = traffic.post(op);
    while (!accepted && posted.size() < promised) {
      s.require(deadline.wait(), "irecv accepted only {} of {} requests", posted.size(), promised);
      accepted = traffic.post(op);
    }
    posted.push_back(std::move(next));
    if (!accepted) return posted.size() - 1;
  }
  return posted.size();
}

// The limit is NCCL_NET_MAX_REQUESTS: 32, and 8 up to NCCL 2.18, whose newest table is v6. NCCL
// posts again after success and a null request.
void request_limit(Session& s) {
  s.open();
  TestConnection connection = open_connection(s, 0, 1);
  size_t count = 0;
  {
    Traffic traffic(s, {});
    std::vector<std::unique_ptr<Posted>> posted;
    if (s.rank() == 1) {
      fill_with_receives(s, traffic, connection.recv_comm(), posted);
      count = posted.size();
    }
    count = std::stoul(s.allgather("receives posted", std::to_string(count))[1]);
    if (s.rank() == 0) {
      for (size_t i = 0; i < count; ++i) {
        posted.push_back(prepare(s, connection.send_comm(), Op::Kind::kSend));
        Pattern(s.options().seed, 9, i).fill(posted.back()->buffer.data(), kRequestBytes);
        traffic.add(posted.back()->op);
      }
    }
    traffic.run();  // the receive without a request is accepted now, as the others complete
    for (size_t i = 0; s.rank() == 1 && i < count; ++i) {
      size_t wrong =
          Pattern(s.options().seed, 9, i).first_mismatch(posted[i]->buffer.data(), kRequestBytes);
      s.require(wrong == kRequestBytes, "message {} of {} is wrong at byte {}", i, count, wrong);
    }
    s.meet("all data has arrived");
  }
}

// Channels that share a comm test their requests independently of each other.
void any_order(Session& s) {
  s.open();
  TestConnection connection = open_connection(s, 0, 1);
  ExchangeStyle style;
  style.traffic.any_order = true;
  for (int round = 0; round < 10; ++round) {
    std::vector<Group> groups;
    for (int i = 0; i < 32; ++i) {
      size_t bytes = s.random().below(3000);
      groups.push_back(single(bytes, bytes + 10));
    }
    // Tests in a random order draw from the same generator, but differently on each rank.
    Random saved = s.random();
    exchange(s, connection, groups, style);
    s.random() = saved;
  }
  s.meet("all data has arrived");
}

// A send's *request is what an earlier send left there. A receive's is null, or from v9 may be 0x1;
// the converters of older tables pass null then, as NCCL does.
void request_is_overwritten(Session& s) {
  s.open();
  TestConnection connection = open_connection(s, 0, 1);
  Net& net = s.net();
  auto untouched = [&](const char* entry, void* request) {
    s.require(request != kOptionalCompletion,
              "{} succeeded and did not overwrite *request, which was 0x1", entry);
  };
  Traffic traffic(s, {});
  std::vector<std::unique_ptr<Posted>> posted;
  if (s.rank() == 0) {  // the other end has posted nothing yet
    posted.push_back(prepare(s, connection.send_comm(), Op::Kind::kSend));
    Op& op = traffic.add(posted.back()->op);
    for (int i = 0; i < 50 && !op.posted; ++i) {
      void* request = kOptionalCompletion;
      s.must("isend", [&] {
        return net.isend(op.comm, op.data[0], op.sizes[0], 0, op.mhandles[0], &op, &request);
      });
      untouched("isend", request);
      op.request = request;
      op.posted = request != nullptr;
    }
  }
  s.meet("isend has been tried");
  if (s.rank() == 1) {
    int accepted = 0;
    // Far beyond the limit, so that a plugin with a limit shows both outcomes.
    for (size_t i = 0; i < 4 * abi::kMaxRequests; ++i) {
      posted.push_back(prepare(s, connection.recv_comm(), Op::Kind::kRecv));
      Op& op = posted.back()->op;
      void* phandle = &op;
      void* request = kOptionalCompletion;
      auto result = s.call("irecv", [&] {
        return net.irecv(op.comm, 1, op.data.data(), op.sizes.data(), op.tags.data(),
                         op.mhandles.data(), &phandle, &request);
      });
      // Traffic::post() has the reason.
      if (result == abi::ncclInternalError && accepted >= s.contract().max_requests) break;
      s.require(result == abi::ncclSuccess, "irecv returned {}", describe(result));
      accepted += request != nullptr ? 1 : 0;
      untouched("irecv", request);
      if (i > 0) continue;
      op.request = request;
      op.posted = request != nullptr;
      traffic.add(op);
    }
  }
  traffic.run();
  s.meet("one message has arrived");
  // The other receives have no matching send when the comm closes.
  posted.clear();
}

// Nothing orders isend and the peer's irecv, so a send before its receive is the normal case.
void early_send(Session& s) {
  constexpr auto kHeadStart = std::chrono::milliseconds(200);
  s.open();
  TestConnection connection = open_connection(s, 0, 1);
  if (s.rank() == 1) std::this_thread::sleep_for(kHeadStart);
  exchange(s, connection, {single(100), single(0), single(200000)});
  s.meet("all data has arrived");
}

void slow_receiver(Session& s) {
  s.open();
  TestConnection connection = open_connection(s, 0, 1);
  std::vector<Group> groups(300, single(3000));
  for (int round = 0; round < 2; ++round) {
    if (s.rank() == round) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    exchange(s, connection, groups);
  }
  s.meet("all data has arrived");
}
}  // namespace

ConformanceCases request_cases() {
  return {
      {"C30-request-limit",
       "32 receives (v6: 8) may be outstanding; when the plugin has no room it returns success and "
       "a null request, or an internal error beyond that number, and accepts the receive later",
       2, &request_limit},
      {"C31-any-order", "requests may be tested in any order", 2, &any_order},
      {"C32-request-overwritten",
       "isend and irecv set *request on every path, also when they return no request", 2,
       &request_is_overwritten},
      {"C33-early-send", "isend before the receive is posted is not an error and does not block", 2,
       &early_send},
      {"C34-slow-peer", "one side may lag behind the other by hundreds of messages", 2,
       &slow_receiver},
  };
}

}  // namespace gdr::tools
