#include "transport/gpu/peermem.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace gdr::gpu {
namespace {

namespace fs = std::filesystem;

class PeermemTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "peermem-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }

  void put(const std::string& file, const std::string& text) {
    fs::path path = fs::path(root_) / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }

  std::string root_;
};

TEST_F(PeermemTest, Probe_EmptySysfs_IsAbsent) {
  EXPECT_EQ(probe_peermem(root_).kind, PeermemKind::kAbsent);
  EXPECT_FALSE(peermem_present(root_));
  EXPECT_FALSE(peermem_present(root_ + "/missing"));
}

TEST_F(PeermemTest, Probe_NvidiaPeermemModule_IsFoundWithVersion) {
  put("module/nvidia_peermem/version", "580.65.06");
  Peermem found = probe_peermem(root_);
  EXPECT_EQ(found.kind, PeermemKind::kNvidiaPeermem);
  EXPECT_EQ(found.version, "580.65.06");
  EXPECT_EQ(found.found_at, "module/nvidia_peermem/version");
  EXPECT_TRUE(peermem_present(root_));
}

TEST_F(PeermemTest, Probe_NcClientOnly_IsNvidiaPeermem) {
  put("kernel/mm/memory_peers/nv_mem_nc/version", "1.3");
  EXPECT_EQ(probe_peermem(root_).kind, PeermemKind::kNvidiaPeermem);
}

TEST_F(PeermemTest, Probe_OldModule_IsToldApart) {
  put("kernel/mm/memory_peers/nv_mem/version", "1.2");
  EXPECT_EQ(probe_peermem(root_).kind, PeermemKind::kNvPeerMem);
  EXPECT_TRUE(peermem_present(root_));
}

TEST_F(PeermemTest, Probe_SharedNameOfNewModule_IsNvidiaPeermem) {
  put("kernel/mm/memory_peers/nv_mem/version", "1.2");
  fs::create_directories(fs::path(root_) / "module/nvidia_peermem");
  EXPECT_EQ(probe_peermem(root_).kind, PeermemKind::kNvidiaPeermem);
}

}  // namespace
}  // namespace gdr::gpu
