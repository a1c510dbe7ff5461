#include "transport/data/message_cutter.h"

#include <gtest/gtest.h>

#include "tests/unit/transport/data/sizes.h"

namespace gdr::transport {
namespace {

constexpr size_t kUnlimited = size_t{1} << 32;

TEST(ChunksForPairs, BytesAndPairs_DecideCountAndSizeInWholeLines) {
  const struct {
    size_t bytes;
    uint32_t pairs;
    Chunking chunks;  // bytes, count
  } cases[] = {{10 * kMib, 1, {10 * kMib, 1}},
               {0, 4, {0, 1}},
               {128, 4, {128, 1}},
               {129, 4, {128, 2}},
               {10000, 4, {2560, 4}}};
  for (const auto& [bytes, pairs, expected] : cases) {
    const Chunking chunks = chunks_for_pairs(bytes, pairs);
    EXPECT_EQ(chunks.bytes, expected.bytes) << bytes;
    EXPECT_EQ(chunks.count, expected.count) << bytes;
  }
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

TEST(ChunksForRails, BytesPathsSplitAndPort_DecideCountAndSize) {
  const struct {
    const char* name;
    size_t bytes;
    uint32_t paths;
    uint32_t least;  // chunks, of NCCL_IB_SPLIT_DATA_ON_QPS
    size_t max_write;
    uint32_t count;
    size_t chunk_bytes;  // 0: not compared
  } cases[] = {
      {"one path", 16 * kMib, 1, 1, kUnlimited, 1, 0},
      {"no bytes", 0, 4, 1, kUnlimited, 1, 0},
      {"short", 128 * kKib - 1, 4, 1, kUnlimited, 1, 0},
      {"two chunks for each path", 512 * kKib, 2, 1, kUnlimited, 4, 128 * kKib},
      {"two chunks for each path", 512 * kKib, 3, 1, kUnlimited, 6, 0},
      {"two chunks for each path", 2 * kMib, 4, 1, kUnlimited, 8, 0},
      {"64 KiB at least", 128 * kKib, 2, 1, kUnlimited, 2, 64 * kKib},
      {"64 KiB at least", 256 * kKib, 8, 1, kUnlimited, 4, 64 * kKib},
      {"512 KiB at most", 8 * kMib, 2, 1, kUnlimited, 16, 512 * kKib},
      {"32 at most", 64 * kMib, 2, 1, kUnlimited, 32, 0},
      {"split", 10000, 2, 8, kUnlimited, 8, 0},
      {"split", 10000, 1, 8, kUnlimited, 8, 0},
      {"one line is not split", 128, 2, 8, kUnlimited, 1, 0},
      {"the port's largest message", kMib, 2, 1, 16 * kKib, 64, 0},
      {"the port's largest message", kMib, 1, 1, 16 * kKib, 64, 0},
      {"what the immediate counts", kMib, 2, 1, 8 * kKib, wire::kMaxQps, 0},
      {"too large for the port", kMib, 2, 1, 4 * kKib, wire::kMaxQps, 8 * kKib},
  };
  for (const auto& one : cases) {
    const Chunking chunks = chunks_for_rails(one.bytes, one.paths, one.least, one.max_write);
    EXPECT_EQ(chunks.count, one.count) << one.name << " " << one.bytes;
    EXPECT_TRUE(one.chunk_bytes == 0 || chunks.bytes == one.chunk_bytes) << one.name;
  }
}

TEST(MessageCutter, AnyConnection_WholeAtMostIsTheLargestMessageThatIsOneChunk) {
  for (uint32_t paths : {1u, 2u, 8u}) {
    for (uint32_t pairs : {1u, 2u, 8u}) {
      for (size_t max_write : {4 * kKib, kMib, kUnlimited}) {
        const MessageCutter cutter{.max_write_bytes = max_write,
                                   .split_data_on_qps = true,
                                   .paths = paths,
                                   .pairs = pairs,
                                   .queue_depth = 247};
        const size_t whole = cutter.whole_at_most();
        EXPECT_EQ(cutter.cut(whole).count, 1u) << paths << " " << pairs << " " << max_write;
        if (whole < kUnlimited) {
          EXPECT_GT(cutter.cut(whole + 1).count, 1u);
        }
      }
    }
  }
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

}  // namespace
}  // namespace gdr::transport
