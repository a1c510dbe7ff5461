#include "transport/data/staged_sends.h"

#include "tests/unit/transport/staged_transfer.h"

namespace gdr::transport {
namespace {

using StagedSendsTest = StagedTransfer;

TEST_F(StagedSendsTest, BothEndsStaged_DataArrivesInOrderedChunks) {
  const size_t chunk = wire::kMinChunkBytes;
  for (size_t bytes : {size_t{0}, size_t{1}, chunk, chunk + 1, 3 * chunk, kMost - 3}) {
    for (size_t i = 0; i < bytes; ++i) source.view()[i] = static_cast<char>(i * 13 + bytes);
    std::memset(target.view(), 0, kMost);
    pair.verbs.forget_posted();
    Request* receive = irecv(bytes);
    Request* send = isend(bytes);
    ASSERT_TRUE(receive != nullptr && send != nullptr);
    ASSERT_TRUE(both_complete(receive, send)) << bytes;
    EXPECT_EQ(std::memcmp(source.view(), target.view(), bytes), 0) << bytes;
    const auto posted = pair.posted_by(*pair.sender);
    EXPECT_LE(posted.size(), size_t{wire::kMaxChunks});
    EXPECT_EQ(posted.size(),
              bytes <= chunk ? 1u : std::min<size_t>(8, (bytes + chunk - 1) / chunk));
    for (size_t i = 0; i + 1 < posted.size(); ++i) {
      EXPECT_EQ(posted[i].bytes % wire::kSplitAlignment, 0u);
      EXPECT_GE(posted[i].bytes, chunk);
      EXPECT_EQ(posted[i + 1].remote_address, posted[i].remote_address + posted[i].bytes);
    }
  }
}

TEST_F(StagedSendsTest, SourceNotCopiedYet_NothingIsPosted) {
  hold_copies(true);
  Request* receive = irecv(1000);
  Request* send = isend(1000);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(test_once(send).done);
  EXPECT_TRUE(pair.posted_by(*pair.sender).empty());
  hold_copies(false);
  EXPECT_TRUE(both_complete(receive, send));
}

TEST_F(StagedSendsTest, PeerMakesASlotSmallerWhileTheSourceIsCopied_NothingIsPosted) {
  hold_copies(true);
  ASSERT_NE(irecv(1000), nullptr);
  Request* send = isend(1000);
  ASSERT_NE(send, nullptr);
  tables_of(*pair.sender).ring[0].bytes = 999;
  hold_copies(false);
  EXPECT_TRUE(wait_for([&] { return !test_once(send).alive; }));
  EXPECT_TRUE(contains(failure_of(*pair.sender).text, kSlotChanged))
      << failure_of(*pair.sender).text;
  EXPECT_TRUE(pair.posted_by(*pair.sender).empty());
}

TEST_F(StagedSendsTest, SourceNotCopiedYet_WatchdogNamesTheCopy) {
  hold_copies(true);
  Request* receive = irecv(1000);
  Request* send = isend(1000);
  EXPECT_FALSE(test_once(send).done);
  EXPECT_TRUE(contains(state_of(*pair.sender), "launched but not complete"))
      << state_of(*pair.sender);
  hold_copies(false);
  ASSERT_TRUE(both_complete(receive, send));
  EXPECT_FALSE(contains(state_of(*pair.sender), "launched")) << state_of(*pair.sender);
}

// Seven groups: the first four are announced as they are posted, the others together.
TEST_F(StagedSendsTest, MoreThanFit_WaitWithoutARequest) {
  constexpr int kGroups = 7;
  constexpr int kBuffers = kGroups * wire::kMaxGroup;
  constexpr int kFit = 32;
  Buffer sink = pair.receiver_buffer(kBuffers, '.');
  for (int i = 0; i < kBuffers; ++i) source.view()[i] = static_cast<char>('0' + i);
  std::vector<Request*> receives;
  for (int first = 0; first < kBuffers; first += wire::kMaxGroup) {
    std::vector<ReceiveBuffer> group;
    for (int i = 0; i < wire::kMaxGroup; ++i) {
      group.push_back({sink.data() + first + i, 1, 0, sink.memory.get()});
    }
    receives.push_back(pair.irecv(group));
    ASSERT_NE(receives.back(), nullptr);
  }
  ASSERT_EQ(tables_of(*pair.sender).ring[kBuffers - 1].bytes, 1u) << "all are announced";

  hold_copies(true);
  std::vector<Request*> sends;
  for (size_t i = 0; i < kFit; ++i) {
    sends.push_back(isend(1, i));
    ASSERT_NE(sends.back(), nullptr) << i;
  }
  ASSERT_EQ(isend(1, kFit), nullptr);
  hold_copies(false);
  for (size_t i = kFit; i < kBuffers; ++i) {
    Request* send = nullptr;
    ASSERT_TRUE(wait_for([&] { return (send = isend(1, i)) != nullptr; })) << i;
    sends.push_back(send);
  }
  for (Request* send : sends) EXPECT_TRUE(completes(send));
  for (Request* receive : receives) EXPECT_TRUE(completes(receive));
  EXPECT_EQ(std::string(sink.data(), kBuffers), std::string(source.view(), kBuffers));
}

// The send queue has room for 64 chunks beyond the first of each message; nine messages of eight
// chunks take 63.
struct ManyChunks : StagedTransfer {
  static constexpr int kFit = 9;
  static constexpr size_t kBytes = wire::kMaxChunks * wire::kMinChunkBytes;

  void SetUp() override {
    for (int i = 0; i < kFit + 1; ++i) {
      receives.push_back(pair.irecv(sink));
      ASSERT_NE(receives.back(), nullptr);
    }
    ASSERT_EQ(tables_of(*pair.sender).ring[kFit].bytes, kBytes) << "all are announced";
  }
  Buffer sink = pair.receiver_buffer(kBytes);
  std::vector<Request*> receives;
};

TEST_F(ManyChunks, NoRoomForAnother_WaitsWithoutARequest) {
  hold_copies(true);
  std::vector<Request*> sends;
  for (int i = 0; i < kFit; ++i) {
    sends.push_back(isend(kBytes));
    ASSERT_NE(sends.back(), nullptr) << i;
  }
  ASSERT_EQ(isend(kBytes), nullptr);
  hold_copies(false);
  for (Request* send : sends) ASSERT_TRUE(completes(send));
  EXPECT_EQ(pair.posted_by(*pair.sender).size(), size_t{kFit} * wire::kMaxChunks);
}

TEST_F(ManyChunks, SentOneAfterAnother_RoomIsUsedAgain) {
  for (Request* receive : receives) {
    Request* send = isend(kBytes);
    ASSERT_NE(send, nullptr);
    ASSERT_TRUE(both_complete(receive, send));
  }
}

// GDR_NCCL_GDR_LIMIT.
TEST_F(StagedSendsTest, GpudirectLimit_LargerSendsAloneAreStaged) {
  MemoryOptions options;
  options.gpudirect_limit = 4096;
  Registrar registrar(shared(options));
  const MemoryRegion region{reinterpret_cast<uintptr_t>(source.get()), kMost, true};
  auto memory =
      registrar.register_memory(pair.sender->connection().registration_scope(), region).value();
  ASSERT_TRUE(memory->direct && memory->staging != nullptr);
  Buffer sink = pair.receiver_buffer(4097);  // a staged one would have every send in chunks
  pair.irecv(sink);
  pair.irecv(sink);
  pair.verbs.hold();  // the fake cannot read memory at the address that the GPU has for it
  pair.verbs.forget_posted();

  ASSERT_NE(isend(4096, *memory), nullptr);
  auto posted = pair.posted_by(*pair.sender);
  ASSERT_EQ(posted.size(), 1u);
  EXPECT_EQ(posted[0].source, reinterpret_cast<uint64_t>(source.get()));
  EXPECT_EQ(posted[0].lkey, memory->keys[0].lkey);

  Request* staged = isend(4097, *memory);
  ASSERT_NE(staged, nullptr);
  ASSERT_TRUE(wait_for([&] {
    EXPECT_FALSE(test_once(staged).done);
    posted = pair.posted_by(*pair.sender);
    return posted.size() == 2;
  }));
  EXPECT_EQ(posted[1].source, reinterpret_cast<uint64_t>(memory->staging->host(source.get())));
  EXPECT_EQ(posted[1].lkey, memory->staging_keys[0].lkey);
}

// The copy would otherwise go on in memory that another buffer uses or that is unlocked.
TEST_F(StagedSendsTest, HandleDestroyedWhileItCopies_WaitsForTheCopy) {
  CopyStream* stream = from->staging->stream();  // the connection's
  cuda.hooks.set_copy_delay_us(20'000);
  const uint64_t ticket = stream->copy(from->staging->host(source.get()), source.get(), 8).value();
  from.reset();
  EXPECT_TRUE(stream->done(ticket).value());
  cuda.hooks.set_copy_delay_us(0);
}

}  // namespace
}  // namespace gdr::transport
