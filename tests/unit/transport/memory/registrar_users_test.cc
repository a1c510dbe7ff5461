// Users' buffers, which NCCL registers after its own, and what follows where an HCA refuses one.
#include <gmock/gmock.h>

#include <cerrno>

#include "drivers/cuda/cuda_driver.h"
#include "tests/fakes/cuda/fake_driver.h"
#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/comm_pair.h"
#include "tests/unit/transport/spread_rails.h"

namespace gdr::transport {
namespace {

using fake_verbs::Call;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr size_t kOwnBytes = 1 << 20;
constexpr size_t kUsersBytes = 8 << 20;
constexpr size_t kMessageBytes = 64 << 10;  // each receive is announced at once

// The GPU memory of one end, as NCCL registers it: its own buffer, and later a user's.
struct GpuEnd {
  GpuEnd(const fake_cuda::Driver& cuda, int gpu)
      : own_memory(cuda, gpu, kOwnBytes), users_memory(cuda, gpu, kUsersBytes) {}

  template <class Comm>
  void register_own(Comm& comm) {
    own = register_at(comm, own_memory, kOwnBytes).value();
  }
  template <class Comm>
  void register_users(Comm& comm) {
    users = register_at(comm, users_memory, kUsersBytes).value();
  }
  template <class Comm>
  Error refused_users(Comm& comm, fake_verbs::FakeVerbs& verbs) {
    verbs.fail_call(Call::kRegDmabufMr, ENOMEM);
    verbs.fail_call(Call::kRegMr, EFAULT);
    return register_at(comm, users_memory, kUsersBytes).error();
  }
  template <class Comm>
  Result<std::unique_ptr<MemoryHandle>> register_at(Comm& comm,
                                                    const fake_cuda::DeviceBuffer& buffer,
                                                    size_t bytes) {
    const MemoryRegion region{reinterpret_cast<uintptr_t>(buffer.get()), bytes, true};
    return registrar.register_memory(comm.connection().registration_scope(), region);
  }
  const MemoryHandle& memory(bool is_users) const { return is_users ? *users : *own; }
  void* data(bool is_users) const { return is_users ? users_memory.get() : own_memory.get(); }

  Registrar registrar{shared(MemoryOptions{})};
  fake_cuda::DeviceBuffer own_memory;
  fake_cuda::DeviceBuffer users_memory;
  std::unique_ptr<MemoryHandle> own;
  std::unique_ptr<MemoryHandle> users;
};

template <class Rails>
struct UsersPair {
  const fake_cuda::Driver& cuda = fake_cuda::Driver::load();
  const bool initialised = cuda::CudaDriver::shared().has_value();
  Rails pair = make_rails();
  GpuEnd from{cuda, 0};
  GpuEnd to{cuda, 1};
  RecordedLog log;

  static Rails make_rails() {
    if constexpr (std::is_same_v<Rails, SpreadRails>) {
      return SpreadRails(2);
    } else {
      return Rails();
    }
  }
  UsersPair() {
    from.register_own(*pair.sender);
    to.register_own(*pair.receiver);
    pair.verbs.hold();  // the fake fabric cannot read GPU memory
  }
  Error sender_declines() { return from.refused_users(*pair.sender, pair.verbs); }
  Error receiver_declines() { return to.refused_users(*pair.receiver, pair.verbs); }
  // Another of the user's buffers, which the HCA takes.
  void register_users() {
    from.register_users(*pair.sender);
    to.register_users(*pair.receiver);
  }
  // Posts one message, from and into a user's buffer or NCCL's own. Returns the text of the
  // connection's failure at the sender; "" where the message was posted.
  std::string send(bool from_users, bool to_users) {
    const ReceiveBuffer buffer{to.data(to_users), kMessageBytes, 0, &to.memory(to_users)};
    Request* received = nullptr;
    EXPECT_TRUE(pair.receiver->irecv(Arrays(buffer).get(), &received));
    pair.verbs.deliver_on(qp_number(*pair.receiver));  // the clear-to-send
    Request* sent = nullptr;
    const bool alive =
        pair.sender->isend(from.data(from_users), kMessageBytes, 0, from.memory(from_users), &sent);
    EXPECT_EQ(alive, sent != nullptr);
    if (!alive) return pair.sender->connection().link().failure().text;
    return "";
  }
};

// Over one rail, and over rails that recover.
template <class Rails>
struct UsersBuffers : testing::Test {};
using UsersRails = testing::Types<CommPair, SpreadRails>;
TYPED_TEST_SUITE(UsersBuffers, UsersRails);

TYPED_TEST(UsersBuffers, HcaRefusesIt_IsDeclinedAndWarnedOfOnceWithTheReason) {
  UsersPair<TypeParam> ends;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(ends.sender_declines().code, Code::kDeclined);
  EXPECT_THAT(ends.log.warnings(), ElementsAre(AllOf(HasSubstr("GPU 0000:1a:00.0 and fake_"),
                                                     HasSubstr("a user's buffer of 8388608 bytes"),
                                                     HasSubstr("NCCL_GRAPH_REGISTER=0"))));
}

// Whoever has declined one buffer may use another that its HCA took. Where one end alone uses a
// user's buffer, that must not follow from a decline of the other one.
TYPED_TEST(UsersBuffers, EndsThatDeclineAndBuffersThatAreUsed_DecideWhetherAMessageIsSent) {
  constexpr char kBySender[] = "the sender has declined a user's buffer";
  constexpr char kByReceiver[] = "the receiver has declined a user's buffer";
  const struct {
    bool sender_declines, receiver_declines;
    bool from_users, to_users;
    const char* failure;
  } cases[] = {
      {false, false, false, false, ""},      {false, false, false, true, ""},
      {false, false, true, false, ""},       {false, false, true, true, ""},
      {true, true, false, false, ""},        {true, true, true, true, ""},
      {true, false, false, true, kBySender}, {false, true, true, false, kByReceiver},
      {false, true, false, true, ""},  // the user has registered at one end alone
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(&one - cases);
    UsersPair<TypeParam> ends;
    if (one.sender_declines) ends.sender_declines();
    if (one.receiver_declines) ends.receiver_declines();
    ends.register_users();
    const std::string failure = ends.send(one.from_users, one.to_users);
    EXPECT_THAT(failure, HasSubstr(one.failure));
    EXPECT_EQ(failure.empty(), *one.failure == '\0');
    EXPECT_EQ(contains(failure, "NCCL_LOCAL_REGISTER=0"), !failure.empty());
    EXPECT_EQ(ends.log.warnings().size(), size_t{one.sender_declines} + one.receiver_declines);
  }
}

// A comm that several connections of NCCL's share: each registers the same buffer.
TYPED_TEST(UsersBuffers, OwnBufferAgain_IsNotTheUsers) {
  UsersPair<TypeParam> ends;
  ends.from.register_own(*ends.pair.sender);
  EXPECT_FALSE(ends.from.own->is_users());
}

// PXN: a sender has a buffer of one size for each rank that it sends for. A refused one may be a
// user's, without which NCCL goes on.
TEST(RelayedBuffers, AnotherOfTheSameSize_IsNcclsOwnAtASenderAndMarksWhatFollowsIfItIsRefused) {
  const fake_cuda::Driver& cuda = fake_cuda::Driver::load();
  ASSERT_TRUE(cuda::CudaDriver::shared().has_value());
  CommPair pair;
  MemoryOptions relaying;
  relaying.relays = true;
  Registrar registrar(shared(relaying));
  fake_cuda::DeviceBuffer one(cuda, 0, kOwnBytes), other(cuda, 0, kOwnBytes);
  auto register_at = [&](auto& comm, const fake_cuda::DeviceBuffer& buffer) {
    const MemoryRegion region{reinterpret_cast<uintptr_t>(buffer.get()), kOwnBytes, true};
    return registrar.register_memory(comm.connection().registration_scope(), region);
  };
  const auto sent = register_at(*pair.sender, one).value();
  EXPECT_FALSE(sent->is_users() || register_at(*pair.sender, other).value()->is_users());
  const auto own = register_at(*pair.receiver, one).value();
  const auto users = register_at(*pair.receiver, other).value();
  EXPECT_TRUE(!own->is_users() && users->is_users()) << "only senders relay";
  EXPECT_EQ(sent->slot_flags->load(), 0);
  pair.verbs.fail_call(Call::kRegDmabufMr, ENOMEM);
  pair.verbs.fail_call(Call::kRegMr, EFAULT);
  EXPECT_FALSE(register_at(*pair.sender, other));
  EXPECT_EQ(sent->slot_flags->load(), wire::kAfterDecline);
}

}  // namespace
}  // namespace gdr::transport
