// C8x: messages of 1 GiB and more.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "tools/conformance/case.h"
#include "tools/conformance/exchange.h"
#include "tools/conformance/large_buffer.h"

namespace gdr::tools {
namespace {
constexpr double kPatienceSeconds = 60;

// Sends 32 MiB, and skips the case where this transfer's speed gives the message more than the
// patience.
void skip_if_slow(Session& s, const TestConnection& connection, size_t bytes) {
  constexpr size_t kTrialBytes = size_t{4} << 20;
  constexpr size_t kTrials = 8;
  Clock::time_point start = Clock::now();
  exchange(s, connection, std::vector<Group>(kTrials, single(kTrialBytes)));
  std::chrono::duration<double> took = Clock::now() - start;
  double expected = took.count() * static_cast<double>(bytes / (kTrials * kTrialBytes));
  std::string slow = expected > kPatienceSeconds / 2 ? fmt::format("{:.0f}", expected) : "";
  for (const std::string& one : s.allgather("duration of the trial", slow)) {
    if (!one.empty()) s.skip(fmt::format("{} bytes would take {} s here", bytes, one));
  }
}

// Registers the buffer. The limit of locked memory is the machine's, not the plugin's.
CheckedRegistration registered(Session& s, void* comm, const LargeBuffer& buffer) {
  void* trial = nullptr;
  auto result = s.call("regMr", [&] {
    return s.net().reg_mr(comm, buffer.data(), buffer.bytes(), abi::kPtrHost, &trial);
  });
  rlimit locked{};
  getrlimit(RLIMIT_MEMLOCK, &locked);
  if (result != abi::ncclSuccess && locked.rlim_cur < 2 * buffer.bytes() && geteuid() != 0) {
    s.skip(fmt::format("ulimit -l is below twice {} bytes", buffer.bytes()));
  }
  s.require(result == abi::ncclSuccess, "regMr returned {}", describe(result));
  s.must("deregMr", [&] { return s.net().dereg_mr(comm, trial); });
  return CheckedRegistration(s, comm, buffer.data(), buffer.bytes());
}

void run_patiently(Session& s, Traffic& traffic) {
  Deadline deadline(s, std::max(kPatienceSeconds, s.options().timeout_seconds));
  while (!traffic.poll()) {
    s.require(deadline.wait(), "the message did not arrive in {:.0f} s", kPatienceSeconds);
  }
}

// test() reports sizes as ints in every version. NCCL only asks whether any byte has arrived, as it
// decides by that whether it must flush (src/transport/net.cc, recvProxyProgress).
void check_reported(Session& s, const Op& op, size_t bytes) {
  if (bytes > INT_MAX) {
    s.require(op.actual[0] > 0, "test() reported size {} of a message of {} bytes", op.actual[0],
              bytes);
  } else {
    s.require(op.actual[0] == static_cast<int>(bytes),
              "test() reported size {} of a message of {} bytes", op.actual[0], bytes);
  }
}

void send_one(Session& s, size_t bytes) {
#ifdef __SANITIZE_THREAD__
  s.skip("the thread sanitizer needs several times the message's size of memory");
#endif
  s.open();
  size_t limit = std::min(s.contract().largest_message, s.properties(s.dev()).max_p2p_bytes);
  if (limit < bytes) {
    s.skip(fmt::format("version {} of this plugin carries at most {} bytes", s.contract().version,
                       limit));
  }
  auto buffer = LargeBuffer::create(bytes);
  if (!buffer) s.skip(buffer.error().text);
  TestConnection connection = open_connection(s, 0, 1);
  skip_if_slow(s, connection, bytes);
  bool sends = s.rank() == 0;
  void* comm = sends ? connection.send_comm() : connection.recv_comm();
  CheckedRegistration registration = registered(s, comm, *buffer);
  if (sends) buffer->fill(s.options().seed);
  Op wanted;
  wanted.kind = sends ? Op::Kind::kSend : Op::Kind::kRecv;
  wanted.comm = comm;
  wanted.data = {buffer->data()};
  wanted.sizes = {bytes};
  wanted.tags = {0};
  wanted.mhandles = {registration.get()};
  Traffic traffic(s, {});
  Op& op = traffic.add(wanted);
  run_patiently(s, traffic);
  if (!sends) {
    check_reported(s, op, bytes);
    std::string damage = buffer->check(s.options().seed);
    s.require(damage.empty(), "{}", damage);
  }
  s.meet("the message has arrived");
}

// NCCL_MAX_NET_SIZE of src/include/collectives.h: the largest message of a registered user buffer.
void one_gibibyte(Session& s) { send_one(s, size_t{1} << 30); }
void above_int_max(Session& s) { send_one(s, (size_t{1} << 31) + 1000003); }
void above_uint_max(Session& s) { send_one(s, (size_t{1} << 32) + 3000001); }
}  // namespace

ConformanceCases large_cases() {
  return {
      {"C80-one-gibibyte", "a message of 1 GiB, the largest of NCCL, arrives whole", 2,
       &one_gibibyte},
      {"C81-above-int-max",
       "a message above 2^31 bytes arrives whole where maxP2pBytes (v9) allows it, and test does "
       "not report it as empty or negative",
       2, &above_int_max},
      {"C82-above-uint-max",
       "a message above 2^32 bytes arrives whole where maxP2pBytes (v9) allows it", 2,
       &above_uint_max},
  };
}

}  // namespace gdr::tools
