#include "transport/data/outgoing_message.h"

#include <gtest/gtest.h>

namespace gdr::transport {
namespace {

constexpr size_t kUnlimited = size_t{1} << 32;
constexpr size_t kKib = 1024;
constexpr size_t kMib = 1024 * kKib;

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

TEST(ChunksForStaging, ShortMessage_IsOneChunk) {
  EXPECT_EQ(chunks_for_staging(1, kUnlimited).count, 1u);
  EXPECT_EQ(chunks_for_staging(512 * kKib, kUnlimited).count, 1u);
  EXPECT_EQ(chunks_for_staging(512 * kKib + 1, kUnlimited).count, 2u);
}

TEST(ChunksForStaging, LongMessage_IsEightChunks) {
  Chunking chunks = chunks_for_staging(16 * kMib, kUnlimited);
  EXPECT_EQ(chunks.bytes, 2 * kMib);
  EXPECT_EQ(chunks.count, 8u);
  EXPECT_EQ(chunks_for_staging(16 * kMib + 1, kUnlimited).count, 8u);
}

TEST(ChunksForStaging, PortsLargestMessageIsSmaller_MoreChunks) {
  Chunking chunks = chunks_for_staging(kMib, 64 * kKib);
  EXPECT_EQ(chunks.bytes, 64 * kKib);
  EXPECT_EQ(chunks.count, 16u);
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
}

}  // namespace
}  // namespace gdr::transport
