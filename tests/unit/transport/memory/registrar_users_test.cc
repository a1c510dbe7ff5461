// Users' buffers, which NCCL registers after its own: both ends of a connection accept them or both
// decline them.
#include <gmock/gmock.h>

#include <cerrno>

#include "tests/fakes/cuda/fake_driver.h"
#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/comm_pair.h"

namespace gdr::transport {
namespace {

using fake_verbs::Call;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr size_t kUserBytes = 1 << 20;
constexpr size_t kOtherBytes = 8 << 20;

// One end, as NCCL uses it: one allocation of its own, and later a user's.
struct End {
  explicit End(const MemoryOptions& with) : options(with), registrar(shared(with)) {}

  auto register_at(Connection& connection, const fake_cuda::DeviceBuffer& buffer, size_t bytes,
                   size_t offset = 0) {
    const MemoryRegion region{reinterpret_cast<uintptr_t>(buffer.get()) + offset, bytes, true};
    return registrar.register_memory(connection.registration_scope(), region);
  }

  MemoryOptions options;
  Registrar registrar;
};

MemoryOptions staging() {
  MemoryOptions options;
  options.gpu_memory = RegistrationPaths::parse("staging").value();
  return options;
}
MemoryOptions limited() {
  MemoryOptions options;
  options.gpudirect_limit = 4096;
  return options;
}

struct UsersBuffers : testing::Test {
  const fake_cuda::Driver& cuda = fake_cuda::Driver::load();
  const bool initialised = cuda::CudaDriver::shared().has_value();
  fake_cuda::DeviceBuffer sender_own{cuda, 0, kUserBytes};
  fake_cuda::DeviceBuffer sender_users{cuda, 0, kOtherBytes};
  fake_cuda::DeviceBuffer receiver_own{cuda, 1, kUserBytes};
  fake_cuda::DeviceBuffer receiver_users{cuda, 1, kOtherBytes};
  RecordedLog log;
  CommPair pair;
  std::vector<std::unique_ptr<MemoryHandle>> own;

  Connection& sender() { return pair.sender->connection(); }
  Connection& receiver() { return pair.receiver->connection(); }

  // Registers NCCL's own buffers at both ends: two parts of one allocation.
  void register_own(End& from, End& to) {
    for (size_t offset : {size_t{0}, kUserBytes / 2}) {
      own.push_back(from.register_at(sender(), sender_own, kUserBytes / 2, offset).value());
      own.push_back(to.register_at(receiver(), receiver_own, kUserBytes / 2, offset).value());
    }
  }
  // Whether the sender and the receiver accept a user's buffer.
  std::pair<bool, bool> accepted(End& from, End& to) {
    auto sent = from.register_at(sender(), sender_users, kOtherBytes);
    auto received = to.register_at(receiver(), receiver_users, kOtherBytes);
    EXPECT_TRUE(sent || sent.error().code == Code::kDeclined) << sent.error().text;
    EXPECT_TRUE(received || received.error().code == Code::kDeclined) << received.error().text;
    return {sent.has_value(), received.has_value()};
  }
};

constexpr std::pair<bool, bool> kBoth{true, true};
constexpr std::pair<bool, bool> kNeither{false, false};

TEST_F(UsersBuffers, BothEndsDirect_BothAccept) {
  End from{{}};
  End to{{}};
  register_own(from, to);
  EXPECT_EQ(accepted(from, to), kBoth);
  pair.exchange(1);
  EXPECT_EQ(accepted(from, to), kBoth) << "traffic decides nothing";
  EXPECT_THAT(log.warnings(), IsEmpty());
}

TEST_F(UsersBuffers, SenderStages_BothDecline) {
  End from{staging()};
  End to{{}};
  register_own(from, to);
  EXPECT_EQ(accepted(from, to), kNeither);
}

TEST_F(UsersBuffers, ReceiverStages_BothDecline) {
  End from{{}};
  End to{staging()};
  register_own(from, to);
  EXPECT_EQ(accepted(from, to), kNeither);
}

// What lies unused in the pool differs between equal ranks.
TEST_F(UsersBuffers, BothStageAndMemoryIsLeftOver_BothDecline) {
  End from{staging()};
  End to{staging()};
  auto other = pair.make_sender().value();
  auto released = from.register_at(other->connection(), sender_users, kOtherBytes);
  ASSERT_TRUE(released) << released.error().text;
  register_own(from, to);
  released->reset();
  EXPECT_EQ(accepted(from, to), kNeither);
}

// The HCA took the first of NCCL's buffers, but not the second.
TEST_F(UsersBuffers, OneOfTheOwnBuffersIsStagedUnexpectedly_BothDecline) {
  End from{{}};
  End to{{}};
  own.push_back(from.register_at(sender(), sender_own, kUserBytes / 2).value());
  own.push_back(to.register_at(receiver(), receiver_own, kUserBytes / 2).value());
  pair.verbs.fail_call(Call::kRegDmabufMr, ENOMEM);
  pair.verbs.fail_call(Call::kRegMr, EFAULT);
  own.push_back(to.register_at(receiver(), receiver_own, kUserBytes / 2, kUserBytes / 2).value());
  ASSERT_FALSE(own.back()->direct);
  EXPECT_EQ(accepted(from, to), kNeither);
}

TEST_F(UsersBuffers, SenderLimitsGpudirect_BothDecline) {
  End from{limited()};
  End to{{}};
  register_own(from, to);
  EXPECT_EQ(accepted(from, to), kNeither);
}

// The limit concerns sends.
TEST_F(UsersBuffers, ReceiverLimitsGpudirect_BothAcceptAndNothingIsStaged) {
  End from{{}};
  End to{limited()};
  register_own(from, to);
  EXPECT_EQ(own.back()->staging, nullptr);
  EXPECT_EQ(accepted(from, to), kBoth);
}

// The peer's process may have stopped, or the network of the handshake may be gone.
TEST_F(UsersBuffers, PeerSendsNothing_DeclinesAndWarnsOnce) {
  End from{{}};
  RegistrationAgreement silent(/*stages=*/false, std::chrono::milliseconds(0));
  RegistrationScope scope = sender().registration_scope();
  scope.agreement = &silent;
  auto register_on = [&](const fake_cuda::DeviceBuffer& buffer, size_t bytes) {
    const MemoryRegion region{reinterpret_cast<uintptr_t>(buffer.get()), bytes, true};
    return from.registrar.register_memory(scope, region);
  };
  auto first = register_on(sender_own, kUserBytes);
  ASSERT_TRUE(first);
  for (int i = 0; i < 2; ++i) {
    auto users = register_on(sender_users, kOtherBytes);
    ASSERT_FALSE(users);
    EXPECT_EQ(users.error().code, Code::kDeclined);
  }
  EXPECT_THAT(log.warnings(),
              ElementsAre(AllOf(HasSubstr("does not answer"), HasSubstr("NCCL_GRAPH_REGISTER=0"))));
}

// As with NCCL's net_ib, an accident of this end: it can only be logged.
TEST_F(UsersBuffers, HcaRefusesIt_DeclinesAndWarnsOnceWithTheReason) {
  End from{{}};
  End to{{}};
  register_own(from, to);
  for (int i = 0; i < 2; ++i) {
    pair.verbs.fail_call(Call::kRegDmabufMr, ENOMEM);
    pair.verbs.fail_call(Call::kRegMr, EFAULT);
    auto users = from.register_at(sender(), sender_users, kOtherBytes);
    ASSERT_FALSE(users);
    EXPECT_EQ(users.error().code, Code::kDeclined);
  }
  EXPECT_THAT(log.warnings(),
              ElementsAre(AllOf(HasSubstr("fake_a"), HasSubstr("a user's buffer of 8388608 bytes"),
                                HasSubstr("NCCL_GRAPH_REGISTER=0"))));
}

// A comm that several connections of NCCL's share: each registers the same buffer.
TEST_F(UsersBuffers, SharedComm_TheSameBufferAgainIsStagedToo) {
  End from{staging()};
  End to{staging()};
  register_own(from, to);
  pair.exchange(1);
  auto again = to.register_at(receiver(), receiver_own, kUserBytes / 2);
  ASSERT_TRUE(again) << again.error().text;
  EXPECT_FALSE((*again)->direct);
}

// PXN: a sender has a buffer of one size for each rank that it sends for.
TEST_F(UsersBuffers, RelayingSender_AnotherBufferOfTheSameSizeIsOwn) {
  fake_cuda::DeviceBuffer of_other_rank{cuda, 0, kUserBytes};
  MemoryOptions relaying = staging();
  relaying.relays = true;
  End from{relaying};
  End to{relaying};
  register_own(from, to);
  EXPECT_TRUE(from.register_at(sender(), of_other_rank, kUserBytes));
  EXPECT_FALSE(to.register_at(receiver(), of_other_rank, kUserBytes)) << "only senders relay";
  EXPECT_EQ(accepted(from, to), kNeither);
}

}  // namespace
}  // namespace gdr::transport
