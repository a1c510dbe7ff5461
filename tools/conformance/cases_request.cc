// C3x: requests: their number, their order, and the value of *request.
#include <deque>
#include <thread>

#include "tools/conformance/case.h"
#include "tools/conformance/exchange.h"

namespace gdr::tools {
namespace {
constexpr size_t kRequestBytes = 64;
constexpr size_t kUnlimited = 4096;  // a plugin that accepts this many is taken to have no limit

using Buffers = std::deque<MessageBuffer>;

// Posts receives until the plugin has no more room; the last one is then without a request.
void fill_with_receives(Session& s, Traffic& traffic, const TestConnection& connection,
                        Buffers& posted) {
  auto promised = static_cast<size_t>(s.contract().max_requests);
  Deadline deadline(s, s.options().timeout_seconds);
  while (posted.size() < kUnlimited) {
    const size_t before = posted.size();
    Op& op = traffic.add(posted.emplace_back(s, connection, kRequestBytes).op());
    bool accepted = traffic.post(op);
    while (!accepted && before < promised) {
      s.require(deadline.wait(), "irecv accepted only {} of {} requests", before, promised);
      accepted = traffic.post(op);
    }
    if (!accepted) return;
  }
}

// The limit is NCCL_NET_MAX_REQUESTS: 32, and 8 up to NCCL 2.18, whose newest table is v6. NCCL
// posts again after success and a null request.
void request_limit(Session& s, TestConnection& connection) {
  Buffers posted;
  Traffic traffic(s, {});
  if (s.rank() == 1) fill_with_receives(s, traffic, connection, posted);
  const size_t count = std::stoul(s.allgather("receives posted", std::to_string(posted.size()))[1]);
  for (size_t i = 0; s.rank() == 0 && i < count; ++i) {
    MessageBuffer& buffer = posted.emplace_back(s, connection, kRequestBytes);
    Pattern(s.options().seed, 9, i).fill(buffer.data(), kRequestBytes);
    traffic.add(buffer.op());
  }
  traffic.run();  // the receive without a request is accepted now, as the others complete
  for (size_t i = 0; s.rank() == 1 && i < count; ++i) {
    size_t wrong = Pattern(s.options().seed, 9, i).first_mismatch(posted[i].data(), kRequestBytes);
    s.require(wrong == kRequestBytes, "message {} of {} is wrong at byte {}", i, count, wrong);
  }
}

// Channels that share a comm test their requests independently of each other.
void any_order(Session& s, TestConnection& connection) {
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
}

// A send's *request is what an earlier send left there. A receive's is null, or from v9 may be 0x1;
// the converters of older tables pass null then, as NCCL does.
void request_is_overwritten(Session& s, TestConnection& connection) {
  Net& net = s.net();
  auto untouched = [&](const char* entry, void* request) {
    s.require(request != kOptionalCompletion,
              "{} succeeded and did not overwrite *request, which was 0x1", entry);
  };
  Traffic traffic(s, {});
  Buffers posted;
  if (s.rank() == 0) {  // the other end has posted nothing yet
    Op& op = traffic.add(posted.emplace_back(s, connection, kRequestBytes).op());
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
      Op op = posted.emplace_back(s, connection, kRequestBytes).op();
      void* phandle = &posted.back();
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
}

// Nothing orders isend and the peer's irecv, so a send before its receive is the normal case.
void early_send(Session& s, TestConnection& connection) {
  constexpr auto kHeadStart = std::chrono::milliseconds(200);
  if (s.rank() == 1) std::this_thread::sleep_for(kHeadStart);
  exchange(s, connection, {single(100), single(0), single(200000)});
}

void slow_receiver(Session& s, TestConnection& connection) {
  std::vector<Group> groups(300, single(3000));
  for (int round = 0; round < 2; ++round) {
    if (s.rank() == round) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    exchange(s, connection, groups);
  }
}
}  // namespace

ConformanceCases request_cases() {
  return {
      {"C30-request-limit",
       "32 receives (v6: 8) may be outstanding; when the plugin has no room it returns success and "
       "a null request, or an internal error beyond that number, and accepts the receive later",
       2, &one_way<request_limit>},
      {"C31-any-order", "requests may be tested in any order", 2, &one_way<any_order>},
      {"C32-request-overwritten",
       "isend and irecv set *request on every path, also when they return no request", 2,
       &one_way<request_is_overwritten>},
      {"C33-early-send", "isend before the receive is posted is not an error and does not block", 2,
       &one_way<early_send>},
      {"C34-slow-peer", "one side may lag behind the other by hundreds of messages", 2,
       &one_way<slow_receiver>},
  };
}

}  // namespace gdr::tools
