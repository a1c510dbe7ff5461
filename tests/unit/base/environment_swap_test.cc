#include "base/environment_swap.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

namespace gdr {
namespace {

int assignments_of(const std::string& name) {
  int count = 0;
  for (char** item = environ; *item != nullptr; ++item) {
    count += std::string(*item).rfind(name + "=", 0) == 0 ? 1 : 0;
  }
  return count;
}

TEST(ScopedVariable, Variable_IsReplacedAndLeavesTheOthers) {
  setenv("GDR_TEST_OTHER_ONE", "stays", 1);
  setenv("GDR_TEST_AB", "ab", 1);
  setenv("GDR_TEST_A", "a", 1);
  const ScopedVariable scoped("GDR_TEST_A", "a2");
  EXPECT_STREQ(getenv("GDR_TEST_A"), "a2");
  EXPECT_EQ(assignments_of("GDR_TEST_A"), 1);
  EXPECT_STREQ(getenv("GDR_TEST_AB"), "ab") << "a longer name with the same start";
  EXPECT_STREQ(getenv("GDR_TEST_OTHER_ONE"), "stays");
}

TEST(ScopedVariable, End_RestoresTheFormerValue) {
  setenv("GDR_TEST_SCOPED", "before", 1);
  char** before = environ;
  {
    ScopedVariable scoped("GDR_TEST_SCOPED", "");
    EXPECT_STREQ(getenv("GDR_TEST_SCOPED"), "");
  }
  EXPECT_STREQ(getenv("GDR_TEST_SCOPED"), "before");
  EXPECT_EQ(environ, before);
}

TEST(ScopedVariable, ChangeMeanwhile_IsNotLost) {
  {
    ScopedVariable scoped("GDR_TEST_MEANWHILE", "x");
    setenv("GDR_TEST_OTHER", "kept", 1);  // gives the process another array
  }
  EXPECT_STREQ(getenv("GDR_TEST_OTHER"), "kept");
}

// AddressSanitizer reports it here if an array is freed while a thread reads it.
TEST(ScopedVariable, ReaderMeanwhile_NeverSeesFreedMemory) {
  setenv("GDR_TEST_READ", "there", 1);
  std::atomic<bool> stop{false};
  std::atomic<long> reads{0};
  std::thread reader([&] {
    while (!stop.load()) {
      const char* value = getenv("GDR_TEST_READ");
      ASSERT_NE(value, nullptr);
      ASSERT_STREQ(value, "there");
      ++reads;
    }
  });
  while (reads.load() == 0) std::this_thread::yield();
  for (int i = 0; i < 200; ++i) {
    const ScopedVariable written("GDR_TEST_WRITTEN", std::to_string(i));
    const ScopedVariable scoped("GDR_TEST_SCOPED2", std::to_string(i));
  }
  stop = true;
  reader.join();
}

}  // namespace
}  // namespace gdr
