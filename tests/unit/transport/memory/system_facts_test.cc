#include "transport/memory/system_facts.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "tests/fakes/temp_folder.h"
#include "tests/fakes/verbs/fake_verbs.h"

namespace gdr::transport {
namespace {

namespace fs = std::filesystem;

// Sets the effective capabilities of this thread. Returns those before.
uint32_t set_effective(uint32_t capabilities) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[2]{};
  EXPECT_EQ(syscall(SYS_capget, &header, sets), 0);
  const uint32_t before = std::exchange(sets[0].effective, capabilities & sets[0].permitted);
  EXPECT_EQ(syscall(SYS_capset, &header, sets), 0);
  return before;
}

TEST(ProcessLimits, MemoryLock_CountsWithoutIpcLock) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  rlimit small{64 << 10, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &small), 0);
  const uint32_t had = set_effective(~(1u << CAP_IPC_LOCK));
  EXPECT_EQ(memory_lock_limit(), uint64_t{64} << 10);
  set_effective(had);
  const bool is_initial = fs::read_symlink("/proc/self/ns/user") == "user:[4026531837]";
  const bool is_exempt = is_initial && (had >> CAP_IPC_LOCK & 1) != 0;
  EXPECT_EQ(memory_lock_limit().has_value(), !is_exempt);
  setrlimit(RLIMIT_MEMLOCK, &before);
}

TEST(LackText, MemoryLock_ComesFirstOrIsRuledOut) {
  fake_verbs::FakeVerbs verbs;
  const auto hca =
      HcaContext::open(verbs.api(), verbs.add_hca(fake_verbs::HcaConfig::infiniband("fake_a", 1)))
          .value();
  EXPECT_EQ(lack_text(*hca, ENOMEM, 64 << 10).find(". Fix: raise the memory-lock limit"), 0u);
  EXPECT_EQ(lack_text(*hca, ENOMEM, {}).find(": the HCA has no room for more (it states"), 0u);
  EXPECT_EQ(lack_text(*hca, EAGAIN, 64 << 10).find("memory"), std::string::npos);
}

TEST(ProcessLimits, Descriptors_AreExhaustedAtTheLimit) {
  EXPECT_FALSE(file_descriptors_exhausted());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few{64, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  {
    std::vector<UniqueFd> held;
    for (int fd = 0; (fd = open("/dev/null", O_RDONLY)) >= 0;) held.emplace_back(fd);
    EXPECT_TRUE(file_descriptors_exhausted());
  }
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_FALSE(file_descriptors_exhausted());
}

constexpr char kGpu[] = "0000:1a:00.0";

class Bar1Test : public ::testing::Test {
 protected:
  std::optional<uint64_t> with_resource(const std::string& text) {
    fs::path folder = fs::path(root_) / "bus/pci/devices" / kGpu;
    fs::create_directories(folder);
    std::ofstream(folder / "resource") << text;
    return bar1_bytes(kGpu, root_);
  }

  const TempFolder folder_;
  const std::string root_ = folder_.path();
};

TEST_F(Bar1Test, SeveralWindows_TheLargestCounts) {
  EXPECT_EQ(with_resource("0x00000000c3000000 0x00000000c3ffffff 0x0000000000040200\n"
                          "0x0000004000000000 0x0000004fffffffff 0x000000000014220c\n"
                          "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
                          "0x0000005000000000 0x0000005001ffffff 0x000000000014220c\n"
                          "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
                          "0x0000000000003000 0x000000000000307f 0x0000000000040101\n"
                          "0x00000000c4000000 0x00000000f4ffffff 0x0000000000046200\n"),
            uint64_t{64} << 30);
}

TEST_F(Bar1Test, NothingToRead_IsUnknown) {
  EXPECT_EQ(bar1_bytes(kGpu, root_), std::nullopt);
  EXPECT_EQ(bar1_bytes("", root_), std::nullopt);
  EXPECT_EQ(with_resource(""), std::nullopt);
  EXPECT_EQ(with_resource("not numbers at all\n"), std::nullopt);
  EXPECT_EQ(with_resource("0x0 0x0 0x0\n0x0 0x0 0x0\n"), std::nullopt);
}

}  // namespace
}  // namespace gdr::transport
