#include "transport/memory/registered_block.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

namespace gdr::transport {
namespace {

TEST(MapPages, Pages_AreZeroedAndUnmappedAtTheirEnd) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  Pages<unsigned char> pages = map_pages<unsigned char>(page + 1);
  unsigned char* const begin = pages.get();
  ASSERT_NE(begin, nullptr);
  EXPECT_EQ(std::count(begin, begin + 2 * page, 0), static_cast<ptrdiff_t>(2 * page));
  pages.reset();
  unsigned char resident[2];
  EXPECT_NE(mincore(begin, 2 * page, resident), 0);
}

TEST(MapPages, NoMemory_GivesNull) {
  EXPECT_EQ(map_pages<unsigned char>(size_t{1} << 50), nullptr);
}

}  // namespace
}  // namespace gdr::transport
