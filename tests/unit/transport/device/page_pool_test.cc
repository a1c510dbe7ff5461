#include "transport/device/page_pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <set>
#include <thread>
#include <vector>

namespace gdr::transport {
namespace {

using Block = PagePool::Pointer<unsigned char>;

const size_t kSystemPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

bool is_zero(const Block& block, size_t bytes) {
  return std::all_of(block.get(), block.get() + bytes,
                     [](unsigned char byte) { return byte == 0; });
}

bool is_mapped(void* page) {
  unsigned char resident;
  return mincore(page, kSystemPage, &resident) == 0;
}

// More than are mapped at a time.
TEST(PagePool, ManyBlocks_AreZeroedWholePagesOfTheirOwn) {
  const auto pool = PagePool::create();
  const size_t bytes = kSystemPage + 1;
  std::vector<Block> blocks;
  std::set<unsigned char*> pages;
  for (int i = 0; i < 50; ++i) {
    Block& block = blocks.emplace_back(pool->allocate<unsigned char>(bytes));
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.get()) % kSystemPage, 0u);
    ASSERT_TRUE(is_zero(block, 2 * kSystemPage)) << i;
    std::memset(block.get(), 0xff, 2 * kSystemPage);
    EXPECT_TRUE(pages.insert(block.get()).second && pages.insert(block.get() + kSystemPage).second);
  }
}

TEST(PagePool, BlockIsGivenBack_TheNextIsZeroAgain) {
  const auto pool = PagePool::create();
  const Block other = pool->allocate<unsigned char>(kSystemPage);
  Block block = pool->allocate<unsigned char>(kSystemPage);
  unsigned char* const place = block.get();
  std::memset(block.get(), 0xff, kSystemPage);
  block.reset();
  unsigned char resident = 1;
  ASSERT_EQ(mincore(place, kSystemPage, &resident), 0);
  EXPECT_EQ(resident & 1, 0) << "its memory is the kernel's again";
  block = pool->allocate<unsigned char>(kSystemPage);
  EXPECT_EQ(block.get(), place);
  EXPECT_TRUE(is_zero(block, kSystemPage));
}

TEST(PagePool, AllBlocksAreGivenBack_NothingStaysMapped) {
  const auto pool = PagePool::create();
  std::vector<Block> blocks;
  for (int i = 0; i < 50; ++i) blocks.push_back(pool->allocate<unsigned char>(3 * kSystemPage));
  std::vector<unsigned char*> places;
  for (const Block& block : blocks) places.push_back(block.get());
  blocks.clear();
  for (unsigned char* place : places) EXPECT_FALSE(is_mapped(place));
}

// An HCA's context may be closed before a comm's tables are freed.
TEST(PagePool, PoolIsGivenUpFirst_BlocksStayUsable) {
  auto pool = PagePool::create();
  Block small = pool->allocate<unsigned char>(1);
  Block large = pool->allocate<unsigned char>(20 * kSystemPage);
  pool.reset();
  *small = *large = 1;
  small.reset();
  EXPECT_EQ(*large, 1);
}

// Comms of one HCA are set up and closed in many threads. ThreadSanitizer reports unsynchronised
// access.
TEST(PagePool, ThreadsAllocateAndGiveBack_EachBlockIsZeroed) {
  const auto pool = PagePool::create();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&pool] {
      std::deque<Block> blocks;
      for (int round = 0; round < 200; ++round) {
        Block& block = blocks.emplace_back(pool->allocate<unsigned char>(kSystemPage));
        ASSERT_NE(block, nullptr);
        ASSERT_TRUE(is_zero(block, kSystemPage)) << round;
        std::memset(block.get(), 0xff, kSystemPage);
        if (blocks.size() > 20) blocks.pop_front();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(PagePool, NoMemory_GivesNull) {
  const auto pool = PagePool::create();
  EXPECT_EQ(pool->allocate<unsigned char>(size_t{1} << 50), nullptr) << "more than can be mapped";
  EXPECT_EQ(pool->allocate<unsigned char>((size_t{1} << 60) + 1), nullptr) << "sizes overflow";
}

}  // namespace
}  // namespace gdr::transport
