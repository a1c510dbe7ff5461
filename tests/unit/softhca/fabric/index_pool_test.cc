#include "softhca/fabric/index_pool.h"

#include <gtest/gtest.h>

namespace softhca {
namespace {

TEST(IndexPool, IndexGivenBack_ReusedOnlyAfterAllOthers) {
  IndexPool pool(3);
  EXPECT_EQ(pool.take(), 0);
  pool.give(0);
  EXPECT_EQ(pool.take(), 1);
  EXPECT_EQ(pool.take(), 2);
  EXPECT_EQ(pool.take(), 0);
}

TEST(IndexPool, AllTaken_ReturnsMinusOne) {
  IndexPool pool(1);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.take(), -1);
}

}  // namespace
}  // namespace softhca
