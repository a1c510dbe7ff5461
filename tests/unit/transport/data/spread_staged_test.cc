// Messages that go through a bounce buffer, over several rails of which one is lost: their chunks
// have to arrive in order, as the receiver knows only by their number which bytes are there.
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/fakes/cuda/fake_driver.h"
#include "tests/unit/transport/spread_rails.h"

namespace gdr::transport {
namespace {

constexpr size_t kStagedBytes = 3 * (size_t{1} << 20) + 5;  // seven chunks
constexpr size_t kStagedChunks = 7;

// Registers GPU memory that is staged, and nothing else.
template <class Comm>
std::unique_ptr<MemoryHandle> stage(Comm& comm, const fake_cuda::DeviceBuffer& buffer) {
  MemoryOptions only;
  only.gpu_memory = RegistrationPaths::parse("staging").value();
  Registrar registrar(shared(only));
  const MemoryRegion region{reinterpret_cast<uintptr_t>(buffer.get()), kStagedBytes, true};
  return registrar.register_memory(comm.connection().registration_scope(), region).value();
}

struct StagedMessage {
  const char* name;
  bool at_sender;
  bool at_receiver;
  unsigned copy_delay_us = 0;  // so that the pair is lost while some chunks are being copied
};

class SpreadStaged : public testing::TestWithParam<StagedMessage> {
 protected:
  SpreadStaged() {
    for (size_t i = 0; i < kStagedBytes; ++i)
      source.view()[i] = static_cast<char>(i * 2654435761u >> 24);
    std::memset(target.view(), 0, kStagedBytes);
    std::memcpy(host_source.data(), source.view(), kStagedBytes);
  }
  void TearDown() override { cuda.hooks.set_copy_delay_us(0); }

  Request* irecv() {
    if (!GetParam().at_receiver) return pair.irecv(host_target);
    return pair.irecv({ReceiveBuffer{target.get(), kStagedBytes, 0, to.get()}});
  }
  Request* isend() {
    if (!GetParam().at_sender) return pair.isend(host_source);
    Request* request = nullptr;
    EXPECT_TRUE(pair.sender->isend(source.get(), kStagedBytes, 0, *from, &request));
    return request;
  }
  const char* arrived() { return GetParam().at_receiver ? target.view() : host_target.data(); }
  // The number of a chunk of the message, by the address that it is written to.
  size_t number_of(uint64_t address, uint64_t first) { return (address - first) / (512 << 10); }

  SpreadRails pair{2};
  const fake_cuda::Driver& cuda = fake_cuda::Driver::load();
  const bool initialised = cuda::CudaDriver::shared().has_value();
  fake_cuda::DeviceBuffer source{cuda, 0, kStagedBytes};
  fake_cuda::DeviceBuffer target{cuda, 1, kStagedBytes};
  std::unique_ptr<MemoryHandle> from = stage(*pair.sender, source);
  std::unique_ptr<MemoryHandle> to = stage(*pair.receiver, target);
  Buffer host_source = pair.sender_buffer(kStagedBytes);
  Buffer host_target = pair.receiver_buffer(kStagedBytes);
};

TEST_P(SpreadStaged, PairLostInTheMiddle_TheRestGoesInOrderOverTheOther) {
  Request* receive = irecv();
  ASSERT_NE(receive, nullptr);
  pair.verbs.hold();
  cuda.hooks.set_copy_delay_us(GetParam().copy_delay_us);
  Request* send = isend();
  ASSERT_NE(send, nullptr);
  const size_t posted = GetParam().copy_delay_us > 0 ? 3 : kStagedChunks;
  ASSERT_TRUE(wait_for([&] {
    (void)test_once(send);
    return pair.chunks().size() >= posted;
  }));
  const int first = pair.chunks(0).empty() ? 1 : 0;
  ASSERT_EQ(pair.chunks(first).size(), pair.chunks().size()) << "all over one pair";
  const uint64_t address = pair.chunks().front().remote_address;
  pair.lose_after(first, 2);
  pair.verbs.release();
  ASSERT_TRUE(pair.finish_both(send, receive)) << failure_of(*pair.sender).text;
  EXPECT_EQ(std::memcmp(arrived(), source.view(), kStagedBytes), 0);
  const auto rest = pair.chunks(1 - first);
  ASSERT_EQ(rest.size(), kStagedChunks - 2);
  for (size_t i = 0; i < rest.size(); ++i) {
    EXPECT_EQ(number_of(rest[i].remote_address, address), i + 2);
  }
}

// A quiet connection's polls look at completions alone, and a copy ends without one.
TEST(SpreadStagedTest, QuietConnection_CopiesAreLookedAtByEveryPoll) {
  SpreadRails pair(1, 1);
  const fake_cuda::Driver& cuda = fake_cuda::Driver::load();
  ASSERT_TRUE(cuda::CudaDriver::shared().has_value());
  fake_cuda::DeviceBuffer source{cuda, 0, kStagedBytes};
  std::memset(source.view(), 'x', kStagedBytes);
  const std::unique_ptr<MemoryHandle> from = stage(*pair.sender, source);
  ASSERT_NE(from, nullptr);
  Buffer target = pair.receiver_buffer(kStagedBytes);
  for (int i = 0; i < 40; ++i) pair.exchange({8});
  pair.verbs.forget_posted();
  Request* receive = pair.irecv(target);
  ASSERT_NE(receive, nullptr);
  Request* send = nullptr;
  ASSERT_TRUE(pair.sender->isend(source.get(), kStagedBytes, 0, *from, &send));
  ASSERT_NE(send, nullptr);
  // The copies run in a thread of the fake driver's, which has far more time than it needs.
  for (uint32_t polls = 0; pair.chunks().empty(); ++polls) {
    ASSERT_LT(polls, SpreadPath::kPollsPerLookAtAll / 2);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_TRUE(pair.sender->progress());
  }
  EXPECT_TRUE(pair.finish_both(send, receive));
  EXPECT_EQ(std::memcmp(target.data(), source.view(), kStagedBytes), 0);
}

TEST(SpreadStagedTest, PeerMakesASlotSmallerWhileTheSourceIsCopied_NothingIsPosted) {
  SpreadRails pair(1, 1);
  const fake_cuda::Driver& cuda = fake_cuda::Driver::load();
  ASSERT_TRUE(cuda::CudaDriver::shared().has_value());
  fake_cuda::DeviceBuffer source{cuda, 0, kStagedBytes};
  const std::unique_ptr<MemoryHandle> from = stage(*pair.sender, source);
  ASSERT_NE(from, nullptr);
  Buffer target = pair.receiver_buffer(kStagedBytes);
  ASSERT_NE(pair.irecv(target), nullptr);
  cuda.hooks.set_copy_delay_us(3000);
  Request* send = nullptr;
  ASSERT_TRUE(pair.sender->isend(source.get(), kStagedBytes, 0, *from, &send));
  ASSERT_NE(send, nullptr);
  tables_of(*pair.sender).ring[0].bytes = 8;
  EXPECT_TRUE(wait_for([&] { return !test_once(send).alive; }));
  cuda.hooks.set_copy_delay_us(0);
  EXPECT_TRUE(contains(failure_of(*pair.sender).text, kSlotChanged))
      << failure_of(*pair.sender).text;
  EXPECT_TRUE(pair.chunks().empty());
}

// The copies take their time, for which what is held does not wait.
TEST(SpreadStagedTest, StagedMessageInAGroup_ThoseHeldArePostedAtOnce) {
  SpreadRails pair(1, 1);
  const fake_cuda::Driver& cuda = fake_cuda::Driver::load();
  ASSERT_TRUE(cuda::CudaDriver::shared().has_value());
  fake_cuda::DeviceBuffer source{cuda, 0, kStagedBytes};
  std::memset(source.view(), 'x', kStagedBytes);
  const std::unique_ptr<MemoryHandle> from = stage(*pair.sender, source);
  ASSERT_NE(from, nullptr);
  Buffer small = pair.sender_buffer(100), small_target = pair.receiver_buffer(100);
  Buffer target = pair.receiver_buffer(kStagedBytes);
  ASSERT_TRUE(pair.poll_until([&] { return pair.sender->connection().link().is_quiet(); }));
  pair.verbs.forget_posted();
  Request* receive = pair.irecv({small_target.receive(100, 0), target.receive(kStagedBytes, 1)});
  ASSERT_NE(receive, nullptr);
  Request* held = pair.isend(small, 0);
  ASSERT_NE(held, nullptr);
  EXPECT_TRUE(pair.chunks().empty());
  cuda.hooks.set_copy_delay_us(3000);
  Request* staged = nullptr;
  ASSERT_TRUE(pair.sender->isend(source.get(), kStagedBytes, 1, *from, &staged));
  ASSERT_NE(staged, nullptr);
  EXPECT_EQ(pair.chunks().size(), 1u);
  EXPECT_TRUE(finish(held).done);
  EXPECT_TRUE(pair.finish_both(staged, receive));
  cuda.hooks.set_copy_delay_us(0);
  EXPECT_EQ(small_target.bytes, small.bytes);
  EXPECT_EQ(std::memcmp(target.data(), source.view(), kStagedBytes), 0);
}

INSTANTIATE_TEST_SUITE_P(Ends, SpreadStaged,
                         testing::Values(StagedMessage{"Both", true, true},
                                         StagedMessage{"Sender", true, false},
                                         StagedMessage{"Receiver", false, true},
                                         StagedMessage{"BothWhileCopying", true, true, 3000}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace gdr::transport
