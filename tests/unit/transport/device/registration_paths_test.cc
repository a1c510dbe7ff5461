#include "transport/device/registration_paths.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fakes/temp_folder.h"

namespace gdr::transport {
namespace {

namespace fs = std::filesystem;

TEST(RegistrationPaths, Unset_AllAreAllowed) {
  EXPECT_EQ(RegistrationPaths{}.to_string(), "dmabuf,peermem");
}

TEST(RegistrationPaths, AnyOrder_IsTheSameChoice) {
  EXPECT_EQ(RegistrationPaths::parse("peermem,dmabuf").value().to_string(), "dmabuf,peermem");
  for (const char* text : {"dmabuf", "peermem", "dmabuf,peermem"}) {
    EXPECT_EQ(RegistrationPaths::parse(text).value().to_string(), text);
  }
}

TEST(RegistrationPaths, UnknownOrMissingName_IsRejected) {
  for (const char* text : {"dma-buf", "dmabuf,", ",peermem", "DMABUF", "dmabuf peermem", "staging",
                           "", "dmabuf,gdrcopy"}) {
    Result<RegistrationPaths> paths = RegistrationPaths::parse(text);
    ASSERT_FALSE(paths) << text;
    EXPECT_NE(paths.error().text.find("neither dmabuf nor peermem"), std::string::npos);
  }
}

TEST(RegistrationPaths, Names_AreThoseOfLogs) {
  EXPECT_STREQ(name_of(RegistrationPath::kDmaBuf), "dma-buf");
  EXPECT_STREQ(name_of(RegistrationPath::kPeermem), "nvidia-peermem");
}

class PeermemTest : public ::testing::Test {
 protected:
  void put(const std::string& file, const std::string& text) {
    fs::path path = fs::path(root_) / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }

  const TempFolder folder_;
  const std::string root_ = folder_.path();
};

TEST_F(PeermemTest, Probe_NoModule_IsAbsent) {
  for (const char* folder : {"module", "kernel"}) {
    fs::create_directories(fs::path(root_) / folder);
    Peermem found = probe_peermem(root_);
    EXPECT_EQ(found.kind, PeermemKind::kAbsent) << folder;
    EXPECT_FALSE(is_present(found));
    EXPECT_EQ(to_string(found), "");
    fs::remove(fs::path(root_) / folder);
  }
}

TEST_F(PeermemTest, Probe_NoSysfs_IsUnknown) {
  for (const std::string& root : {root_, root_ + "/missing"}) {
    Peermem found = probe_peermem(root);
    EXPECT_EQ(found.kind, PeermemKind::kUnknown);
    EXPECT_FALSE(is_present(found));
    EXPECT_EQ(to_string(found), "peermem unknown: there is no /sys/module");
  }
}

TEST_F(PeermemTest, Probe_ModuleOrClientOfThePeers_IsFound) {
  constexpr char kOld[] = "peermem (nv_peer_mem, out of support: replace it by nvidia-peermem)";
  const struct {
    const char* file;
    PeermemKind kind;
    const char* text;
  } cases[] = {
      {"kernel/mm/memory_peers/nv_mem/version", PeermemKind::kNvPeerMem, kOld},
      {"kernel/mm/memory_peers/nv_mem_nc/version", PeermemKind::kNvidiaPeermem, "peermem"},
      {"module/nvidia_peermem/version", PeermemKind::kNvidiaPeermem, "peermem"},
  };
  for (const auto& one : cases) {
    put(one.file, "580.65.06");
    const Peermem found = probe_peermem(root_);
    EXPECT_EQ(found.kind, one.kind) << one.file;
    EXPECT_EQ(found.version, "580.65.06");
    EXPECT_EQ(found.found_at, one.file);
    EXPECT_TRUE(is_present(found));
    EXPECT_EQ(to_string(found), one.text);
  }
}

TEST_F(PeermemTest, Probe_SharedNameOfNewModule_IsNvidiaPeermem) {
  put("kernel/mm/memory_peers/nv_mem/version", "1.2");
  fs::create_directories(fs::path(root_) / "module/nvidia_peermem");
  EXPECT_EQ(probe_peermem(root_).kind, PeermemKind::kNvidiaPeermem);
}

TEST(SysfsRootOf, IbdevPath_IsTheFolderOfClass) {
  EXPECT_EQ(sysfs_root_of("/sys/class/infiniband/mlx5_0"), "/sys");
  EXPECT_EQ(sysfs_root_of("/dev/shm/softhca-0-x/3/sys/class/infiniband/softhca0"),
            "/dev/shm/softhca-0-x/3/sys");
  EXPECT_EQ(sysfs_root_of("/host/sys/class/infiniband/mlx5_0"), "/host/sys");
}

TEST(SysfsRootOf, OtherForm_IsSys) {
  for (const char* path : {"", "mlx5_0", "/", "/x/infiniband/mlx5_0", "/x/class/net/eth0",
                           "/sys/devices/pci0000:00/0000:00:01.0/infiniband/mlx5_0"}) {
    EXPECT_EQ(sysfs_root_of(path), "/sys") << path;
  }
}

}  // namespace
}  // namespace gdr::transport
