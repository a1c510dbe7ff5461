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

TEST(ObjectTable, PublishedThenWithdrawn_FoundOnlyInBetween) {
  ObjectTable<int> table(2);
  int object = 5;
  uint32_t index = static_cast<uint32_t>(table.take());
  EXPECT_EQ(table.find(index), nullptr);
  table.publish(index, &object);
  EXPECT_EQ(table.find(index), &object);
  table.withdraw(index);
  EXPECT_EQ(table.find(index), nullptr);
}

}  // namespace
}  // namespace softhca
