#include "transport/memory/bar1.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace gdr::transport {
namespace {

namespace fs = std::filesystem;

constexpr char kGpu[] = "0000:1a:00.0";

class Bar1Test : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "bar1-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }

  std::optional<uint64_t> with_resource(const std::string& text) {
    fs::path folder = fs::path(root_) / "bus/pci/devices" / kGpu;
    fs::create_directories(folder);
    std::ofstream(folder / "resource") << text;
    return bar1_bytes(kGpu, root_);
  }

  std::string root_;
};

TEST_F(Bar1Test, LargestMemoryWindow_IsIt) {
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
