#include "transport/memory/process_limits.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace gdr::transport {
namespace {

namespace fs = std::filesystem;

class StatusFile {
 public:
  explicit StatusFile(const std::string& text) {
    std::string pattern = (fs::temp_directory_path() / "status-XXXXXX").string();
    UniqueFd fd(mkstemp(pattern.data()));
    name_ = pattern;
    std::ofstream(name_) << text;
  }
  ~StatusFile() { fs::remove(name_); }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

constexpr char kOrdinary[] =
    "Name:\ttrain\nVmPeak:\t  9000 kB\nVmLck:\t  64 kB\nVmPin:\t  2048 kB\n"
    "CapPrm:\t000001ffffffffff\nCapEff:\t0000000000000000\n";

TEST(ProcessLimits, PinnedBytes_AreOfRdma) {
  EXPECT_EQ(pinned_bytes(StatusFile(kOrdinary).name()), 2048u * 1024);
  EXPECT_EQ(pinned_bytes(StatusFile("Name:\tx\n").name()), 0u);
  EXPECT_EQ(pinned_bytes("/nowhere/status"), 0u);
}

TEST(ProcessLimits, MemoryLock_CountsOnlyWithoutIpcLock) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  rlimit small{64 << 10, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &small), 0);
  EXPECT_EQ(memory_lock_limit(StatusFile(kOrdinary).name()), uint64_t{64} << 10);
  EXPECT_EQ(memory_lock_limit(StatusFile("CapEff:\t0000000000004000\n").name()), std::nullopt);
  EXPECT_EQ(memory_lock_limit(StatusFile("CapEff:\t000001ffffffffff\n").name()), std::nullopt);
  setrlimit(RLIMIT_MEMLOCK, &before);
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

TEST(ProcessLimits, KernelRelease_StartsWithANumber) {
  ASSERT_FALSE(kernel_release().empty());
  EXPECT_TRUE(std::isdigit(static_cast<unsigned char>(kernel_release()[0])));
}

}  // namespace
}  // namespace gdr::transport
