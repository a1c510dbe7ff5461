// C3x: requests: how many, in which order, and what *request is left at.
#include <thread>

#include "tools/conformance/case.h"
#include "tools/conformance/exchange.h"
#include "tools/conformance/guarded_buffer.h"

namespace gdr::tools {
namespace {
constexpr size_t kBytes = 64;
constexpr size_t kAnnounceBelow = 4096;  // a plugin that takes so many has no limit to find

struct Posted {
  GuardedBuffer buffer{kBytes};
  std::unique_ptr<CheckedRegistration> registration;
  Op op;
};

// A message buffer with an op that has not been posted.
std::unique_ptr<Posted> prepare(Session& s, void* comm, Op::Kind kind) {
  auto made = std::make_unique<Posted>();
  made->registration = std::make_unique<CheckedRegistration>(s, comm, made->buffer.data(), kBytes);
  made->op.kind = kind;
  made->op.comm = comm;
  made->op.data = {made->buffer.data()};
  made->op.sizes = {static_cast<int>(kBytes)};
  made->op.tags = {0};
  made->op.mhandles = {made->registration->get()};
  return made;
}

// Posts receives until the plugin has no more room; returns how many it took.
size_t fill_with_receives(Session& s, Traffic& traffic, void* comm,
                          std::vector<std::unique_ptr<Posted>>& posted) {
  Deadline deadline(s, s.options().timeout_seconds);
  while (posted.size() < kAnnounceBelow) {
    auto next = prepare(s, comm, Op::Kind::kRecv);
    Op& op = traffic.add(next->op);
    bool took = traffic.post(op);
    while (!took && posted.size() < abi::kMaxRequests) {
      s.require(deadline.wait(), "irecv took only {} of {} requests", posted.size(),
                abi::kMaxRequests);
      took = traffic.post(op);
    }
    posted.push_back(std::move(next));
    if (!took) return posted.size() - 1;
  }
  return posted.size();
}

void request_limit(Session& s) {
  s.open();
  Wire wire = open_wire(s, 0, 1);
  size_t count = 0;
  {
    Traffic traffic(s, {});
    std::vector<std::unique_ptr<Posted>> posted;
    if (s.rank() == 1) {
      fill_with_receives(s, traffic, wire.recv_comm(), posted);
      count = posted.size();
    }
    std::string told = s.allgather("receives posted", std::to_string(count))[1];
    count = std::stoul(told);
    if (s.rank() == 0) {
      for (size_t i = 0; i < count; ++i) {
        posted.push_back(prepare(s, wire.send_comm(), Op::Kind::kSend));
        Pattern(s.options().seed, 9, i).fill(posted.back()->buffer.data(), kBytes);
        traffic.add(posted.back()->op);
      }
    }
    traffic.run();  // the one that found no room is taken now, as the others complete
    for (size_t i = 0; s.rank() == 1 && i < count; ++i) {
      size_t wrong =
          Pattern(s.options().seed, 9, i).first_mismatch(posted[i]->buffer.data(), kBytes);
      s.require(wrong == kBytes, "message {} of {} is wrong at byte {}", i, count, wrong);
    }
    s.meet("all data has come");
  }
}

void any_order(Session& s) {
  s.open();
  Wire wire = open_wire(s, 0, 1);
  ExchangeStyle style;
  style.traffic.any_order = true;
  for (int round = 0; round < 10; ++round) {
    std::vector<Group> groups;
    for (int i = 0; i < 32; ++i) {
      size_t bytes = s.random().below(3000);
      groups.push_back(single(bytes, bytes + 10));
    }
    // Testing in a random order draws from the same generator, differently on each rank.
    Random saved = s.random();
    exchange(s, wire, groups, style);
    s.random() = saved;
  }
  s.meet("all data has come");
}

void request_is_overwritten(Session& s) {
  s.open();
  Wire wire = open_wire(s, 0, 1);
  const abi::ncclNet_v8_t& net = s.net();
  auto untouched = [&](const char* entry, void* request) {
    s.require(request != kOptionalCompletion,
              "{} succeeded and left *request at the 0x1 that it held before", entry);
  };
  Traffic traffic(s, {});
  std::vector<std::unique_ptr<Posted>> posted;
  if (s.rank() == 0) {  // nothing is posted at the other end yet
    posted.push_back(prepare(s, wire.send_comm(), Op::Kind::kSend));
    Op& op = traffic.add(posted.back()->op);
    for (int i = 0; i < 50 && !op.posted; ++i) {
      void* request = kOptionalCompletion;
      s.must("isend", [&] {
        return net.isend(op.comm, op.data[0], op.sizes[0], 0, op.mhandles[0], &request);
      });
      untouched("isend", request);
      op.request = request;
      op.posted = request != nullptr;
    }
  }
  s.meet("isend has been tried");
  if (s.rank() == 1) {
    // Far beyond the limit, so that both outcomes are seen where there is a limit.
    for (size_t i = 0; i < 4 * abi::kMaxRequests; ++i) {
      posted.push_back(prepare(s, wire.recv_comm(), Op::Kind::kRecv));
      Op& op = posted.back()->op;
      void* request = kOptionalCompletion;
      s.must("irecv", [&] {
        return net.irecv(op.comm, 1, op.data.data(), op.sizes.data(), op.tags.data(),
                         op.mhandles.data(), &request);
      });
      untouched("irecv", request);
      if (i > 0) continue;
      op.request = request;
      op.posted = request != nullptr;
      traffic.add(op);
    }
  }
  traffic.run();
  s.meet("one message has come");
  // The other receives stay unmatched; closing must cope with them.
  posted.clear();
}

void early_send(Session& s) {
  constexpr auto kHeadStart = std::chrono::milliseconds(200);
  s.open();
  Wire wire = open_wire(s, 0, 1);
  if (s.rank() == 1) std::this_thread::sleep_for(kHeadStart);
  exchange(s, wire, {single(100), single(0), single(200000)});
  s.meet("all data has come");
}

void slow_receiver(Session& s) {
  s.open();
  Wire wire = open_wire(s, 0, 1);
  std::vector<Group> groups(300, single(3000));
  for (int round = 0; round < 2; ++round) {
    if (s.rank() == round) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    exchange(s, wire, groups);
  }
  s.meet("all data has come");
}
}  // namespace

CheckCases request_cases() {
  return {
      {"C30-request-limit",
       "32 receives may be outstanding; when the plugin has no room it returns success and a null "
       "request, and takes it later",
       2, &request_limit},
      {"C31-any-order", "requests may be tested in any order", 2, &any_order},
      {"C32-request-overwritten",
       "isend and irecv set *request on every path, also when there is nothing to give", 2,
       &request_is_overwritten},
      {"C33-early-send", "isend before the receive is posted is no error and does not block", 2,
       &early_send},
      {"C34-slow-peer", "one side may lag behind the other by hundreds of messages", 2,
       &slow_receiver},
  };
}

}  // namespace gdr::tools
