#include "softhca/fabric/registry.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace softhca {
namespace {

constexpr uint64_t kUnknownTime = 0;
constexpr uint64_t kOtherTime = 1;  // nothing here started that early

// Runs `work` in a child of this process and returns its exit status.
template <class Work>
int in_child(Work work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

void take_descriptors_away() {
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_NOFILE, &none);
}

TEST(Registry, Process_EndedOnlyWhereThatIsKnown) {
  const auto own = static_cast<uint32_t>(getpid());
  EXPECT_FALSE(process_ended(own, kUnknownTime));
  EXPECT_TRUE(process_ended(own, kOtherTime)) << "the pid was used again";
  const pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t info = {};
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_TRUE(process_ended(static_cast<uint32_t>(child), kUnknownTime)) << "a zombie";
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(process_ended(static_cast<uint32_t>(child), kUnknownTime));
  EXPECT_EQ(in_child([own] {
              take_descriptors_away();
              return process_ended(own, kOtherTime) ? 1 : 0;
            }),
            0);
}

TEST(Registry, ProcessWithoutDescriptors_EvictsNobody) {
  const std::string fabric = "registry-test-" + std::to_string(getpid());
  gdr::Result<Registry> living = Registry::join(fabric, 7);
  ASSERT_TRUE(living) << living.error().text;
  EXPECT_EQ(in_child([&fabric] {
              gdr::Result<Registry> other = Registry::join(fabric, 8);
              take_descriptors_away();
              if (other) other->leave();
              return other ? 0 : 1;
            }),
            0);
  EXPECT_EQ(living->instance(living->slot()), 7u);
  living->leave();
}

}  // namespace
}  // namespace softhca
