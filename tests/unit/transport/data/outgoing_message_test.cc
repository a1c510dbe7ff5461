#include "transport/data/outgoing_message.h"

#include <gtest/gtest.h>

#include "tests/unit/transport/data/sizes.h"

namespace gdr::transport {
namespace {

constexpr size_t kUnlimited = size_t{1} << 32;

TEST(ChunksForPairs, OnePair_IsOneChunk) {
  Chunking chunks = chunks_for_pairs(10 * kMib, 1);
  EXPECT_EQ(chunks.bytes, 10 * kMib);
  EXPECT_EQ(chunks.count, 1u);
}

TEST(ChunksForPairs, NoBytes_IsOneEmptyChunk) {
  EXPECT_EQ(chunks_for_pairs(0, 4).count, 1u);
  EXPECT_EQ(chunks_for_pairs(0, 4).bytes, 0u);
}

TEST(ChunksForPairs, OneLine_IsNotSplit) {
  EXPECT_EQ(chunks_for_pairs(128, 4).count, 1u);
  EXPECT_EQ(chunks_for_pairs(129, 4).count, 2u);
}

TEST(ChunksForPairs, UnevenBytes_ChunksAreWholeLines) {
  Chunking chunks = chunks_for_pairs(10000, 4);
  EXPECT_EQ(chunks.bytes, 2560u);
  EXPECT_EQ(chunks.count, 4u);
}

TEST(ChunksForPairs, AnySize_CoversTheMessageWithoutAnEmptyChunk) {
  for (uint32_t parts = 1; parts <= wire::kMaxQps; ++parts) {
    for (size_t bytes : {1ul, 127ul, 128ul, 129ul, 4095ul, 4096ul, 65537ul, 1000003ul}) {
      Chunking chunks = chunks_for_pairs(bytes, parts);
      EXPECT_LE(chunks.count, parts) << bytes;
      EXPECT_GE(chunks.bytes * chunks.count, bytes) << parts;
      EXPECT_LT(chunks.bytes * (chunks.count - 1), bytes) << parts;
      if (chunks.count > 1) {
        EXPECT_EQ(chunks.bytes % wire::kSplitAlignment, 0u) << bytes;
      }
    }
  }
}

TEST(ChunksForRails, OnePath_StaysWhole) {
  EXPECT_EQ(chunks_for_rails(16 * kMib, 1, 1, kUnlimited).count, 1u);
}

TEST(ChunksForRails, ShortMessage_StaysWhole) {
  EXPECT_EQ(chunks_for_rails(0, 4, 1, kUnlimited).count, 1u);
  EXPECT_EQ(chunks_for_rails(128 * kKib - 1, 4, 1, kUnlimited).count, 1u);
}

TEST(ChunksForRails, LongMessage_TwoChunksForEachPath) {
  EXPECT_EQ(chunks_for_rails(512 * kKib, 2, 1, kUnlimited).bytes, 128 * kKib);
  EXPECT_EQ(chunks_for_rails(512 * kKib, 3, 1, kUnlimited).count, 6u);
  EXPECT_EQ(chunks_for_rails(2 * kMib, 4, 1, kUnlimited).count, 8u);
}

TEST(ChunksForRails, AnyMessage_ChunksOf64To512KibAndAtMost32) {
  EXPECT_EQ(chunks_for_rails(128 * kKib, 2, 1, kUnlimited).bytes, 64 * kKib);
  EXPECT_EQ(chunks_for_rails(256 * kKib, 8, 1, kUnlimited).bytes, 64 * kKib);
  EXPECT_EQ(chunks_for_rails(8 * kMib, 2, 1, kUnlimited).bytes, 512 * kKib);
  EXPECT_EQ(chunks_for_rails(64 * kMib, 2, 1, kUnlimited).count, 32u);
}

TEST(WholeForRails, AnyConnection_IsTheLargestMessageThatIsOneChunk) {
  for (uint32_t paths : {1u, 2u, 8u}) {
    for (uint32_t least : {1u, 2u, 8u}) {
      for (size_t max_write : {4 * kKib, kMib, kUnlimited}) {
        const size_t whole = whole_for_rails(paths, least, max_write);
        const auto count = [&](size_t bytes) {
          return chunks_for_rails(bytes, paths, least, max_write).count;
        };
        EXPECT_EQ(count(whole), 1u) << paths << " " << least << " " << max_write;
        if (whole < kUnlimited) {
          EXPECT_GT(count(whole + 1), 1u);
        }
      }
    }
  }
}

// NCCL_IB_SPLIT_DATA_ON_QPS.
TEST(ChunksForRails, SplitOverQueuePairs_AsManyChunksAtLeast) {
  EXPECT_EQ(chunks_for_rails(10000, 2, 8, kUnlimited).count, 8u);
  EXPECT_EQ(chunks_for_rails(10000, 1, 8, kUnlimited).count, 8u);
  EXPECT_EQ(chunks_for_rails(128, 2, 8, kUnlimited).count, 1u);
}

TEST(ChunksForRails, PortsLargestMessageIsSmaller_MoreChunksUpToWhatTheImmediateCounts) {
  EXPECT_EQ(chunks_for_rails(kMib, 2, 1, 16 * kKib).count, 64u);
  EXPECT_EQ(chunks_for_rails(kMib, 1, 1, 16 * kKib).count, 64u);
  EXPECT_EQ(chunks_for_rails(kMib, 2, 1, 8 * kKib).count, uint32_t{wire::kMaxQps});
}

TEST(ChunksForRails, MoreWritesThanTheImmediateCounts_ChunksOfSeveralWrites) {
  EXPECT_EQ(chunks_for_rails(kMib, 2, 1, 4 * kKib).bytes, 64 * kKib);
  EXPECT_EQ(chunks_for_rails(kMib, 2, 32, 4 * kKib).bytes, 32 * kKib);
  EXPECT_EQ(chunks_for_rails(16 * kMib, 2, 1, 4 * kKib).count, uint32_t{wire::kMaxQps});
}

TEST(ChunksForRails, AnySize_CoversTheMessageInWholeLines) {
  for (uint32_t paths = 1; paths <= wire::kMaxRails; ++paths) {
    for (size_t bytes : {1ul, 131071ul, 131072ul, 131073ul, 1000003ul, 100000007ul}) {
      const Chunking chunks = chunks_for_rails(bytes, paths, 3, 8 * kMib);
      EXPECT_LE(chunks.count, uint32_t{wire::kMaxQps}) << bytes;
      EXPECT_GE(chunks.bytes * chunks.count, bytes) << paths;
      EXPECT_LT(chunks.bytes * (chunks.count - 1), bytes) << paths;
      if (chunks.count > 1) {
        EXPECT_EQ(chunks.bytes % wire::kSplitAlignment, 0u) << bytes;
      }
    }
  }
}

TEST(OutgoingMessage, Immediate_NamesSlotChunksAndGeneration) {
  OutgoingMessage message{.request = nullptr,
                          .buffer = 3 * wire::kSlots + 5,
                          .source = 0,
                          .bytes = 10000,
                          .chunks = chunks_for_pairs(10000, 4),
                          .cpu_readable = true,
                          .separate_end = true,
                          .parent = nullptr};
  wire::Immediate immediate = wire::decode(message.immediate());
  EXPECT_EQ(immediate.slot, 5u);
  EXPECT_EQ(immediate.chunks, 4u);
  EXPECT_EQ(immediate.stamp, 3u);
  EXPECT_TRUE(immediate.size_in_table);
  EXPECT_EQ(wire::decode(message.immediate(17)).stamp, 3u | 1 << 4) << "the epoch, modulo 16";
}

}  // namespace
}  // namespace gdr::transport
