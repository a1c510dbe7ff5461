// C4x: registration and flush.
#include <atomic>
#include <thread>

#include "tools/conformance/case.h"
#include "tools/conformance/exchange.h"

namespace gdr::tools {
namespace {
constexpr size_t kArea = 1 << 20;

// NCCL registers buffers of its own and of users without knowing of overlaps, and deregisters them
// in any order.
void overlapping(Session& s, TestConnection& connection) {
  void* comm = connection.comm();
  GuardedBuffer area(kArea);
  std::vector<CheckedRegistration> held;
  CheckedRegistration whole(s, comm, area.data(), kArea);
  for (int i = 0; i < 60; ++i) {
    size_t from = s.random().below(kArea - 1);
    size_t bytes = 1 + s.random().below(i % 2 == 0 ? 100 : kArea - from);
    held.emplace_back(s, comm, area.data() + from, std::min(bytes, kArea - from));
    if (i % 3 == 0) CheckedRegistration(s, comm, area.data(), kArea);  // deregistered at once
  }
  // The first registration still works after others of the same memory have been deregistered.
  Traffic traffic(s, {});
  Pattern pattern(s.options().seed, 1, 2);
  if (s.rank() == 0) pattern.fill(area.data(), kArea);
  traffic.add(single_op(connection.kind(), comm, area.data(), kArea, whole.get()));
  traffic.run();
  size_t wrong = pattern.first_mismatch(area.data(), kArea);
  s.require(wrong == kArea, "byte {} is wrong", wrong);
}

// NCCL registers users' buffers on its proxy service thread while the progress thread drives the
// comm (src/proxy.cc).
void from_another_thread(Session& s, TestConnection& connection) {
  void* comm = connection.comm();
  std::atomic<bool> stop{false};
  std::atomic<int> failed{0};
  std::thread registrar([&] {
    std::vector<char> memory(1 << 16);
    for (size_t i = 0; !stop; ++i) {
      void* mhandle = nullptr;
      char* from = memory.data() + i * 37 % 4096;
      if (s.net().reg_mr(comm, from, 1 + i * 61 % 60000, abi::kPtrHost, &mhandle) !=
              abi::ncclSuccess ||
          s.net().dereg_mr(comm, mhandle) != abi::ncclSuccess) {
        ++failed;
      }
    }
  });
  for (int round = 0; round < 20; ++round) {
    std::vector<Group> groups;
    for (int i = 0; i < 20; ++i) groups.push_back(single(s.random().below(20000)));
    exchange(s, connection, groups);
  }
  stop = true;
  registrar.join();
  s.require(failed == 0, "{} of the registrations during the traffic failed", failed.load());
}

void bad_type(Session& s) {
  s.open();
  TestConnection connection = open_connection(s, 0, 0);
  std::vector<char> memory(4096);
  for (int type : {0, 0x40, -1}) {
    for (void* comm : {connection.send_comm(), connection.recv_comm()}) {
      void* mhandle = nullptr;
      auto result = s.call("regMr", [&] {
        return s.net().reg_mr(comm, memory.data(), memory.size(), type, &mhandle);
      });
      s.require(result != abi::ncclSuccess, "regMr accepted memory of type 0x{:x}",
                static_cast<unsigned>(type));
    }
  }
  exchange(s, connection, {single(100)});
}

void flush_host(Session& s) {
  s.open();
  TestConnection connection = open_connection(s, 0, 0);
  exchange(s, connection, {single(1000)});
  MessageBuffer buffer(s, Op::Kind::kRecv, connection.recv_comm(), 4096);
  void* data = buffer.data();
  int size = static_cast<int>(buffer.bytes());
  void* mhandle = buffer.op().mhandles[0];
  void* request = nullptr;  // as in NCCL, where a plugin may leave it alone (src/transport/net.cc)
  s.must("iflush", [&] {
    return s.net().iflush(connection.recv_comm(), 1, &data, &size, &mhandle, &request);
  });
  Deadline deadline(s, s.options().timeout_seconds);
  for (int done = request == nullptr ? 1 : 0; done == 0;) {
    s.must("test", [&] { return s.net().test(request, &done, nullptr); });
    s.require(done != 0 || deadline.wait(), "the request of iflush did not complete");
  }
  std::string damage = buffer.damage(0);
  s.require(damage.empty(), "{}", damage);
}
}  // namespace

ConformanceCases memory_cases() {
  return {
      {"C40-registrations",
       "memory may be registered many times, overlapping, below a page and at any address; "
       "deregistering one does not affect the others",
       2, &one_way<overlapping>},
      {"C41-register-from-another-thread",
       "regMr and deregMr may run on one thread while another uses the comm", 2,
       &one_way<from_another_thread>},
      {"C42-bad-memory-type", "regMr of a memory type that does not exist is an error", 1,
       &bad_type},
      {"C43-flush", "iflush of host memory returns no request or one that completes", 1,
       &flush_host},
  };
}

}  // namespace gdr::tools
