#include <gmock/gmock.h>

#include <fstream>

#include "tests/fakes/temp_folder.h"
#include "tools/common/installed_folders.h"

namespace gdr::tools {
namespace {

using ::testing::HasSubstr;

TEST(FindSofthca, InstalledOne_IsPreferred) {
  const TempFolder folder;
  const std::string program = (folder.path() / "bin").string();
  std::filesystem::create_directory(program);
  for (const std::string& candidate : softhca_candidates(program)) {
    std::filesystem::create_directories(std::filesystem::path(candidate).lexically_normal());
    std::ofstream(candidate + "/libibverbs.so.1") << "library";
  }
  const auto found = find_softhca(program);
  ASSERT_TRUE(found) << found.error().text;
  EXPECT_THAT(*found, HasSubstr("/nccl-net-gdr/softhca"));
}

TEST(FixWithoutDevice, Machine_DecidesWhatToTry) {
  const TempFolder machine;
  const auto fix = [&] { return fix_without_device("perf sendrecv", machine.path().string()); };
  EXPECT_THAT(fix(), HasSubstr("nccl-gdr with-softhca nccl-gdr perf sendrecv"));
  std::filesystem::create_directories(machine.path() / "sys/module/nvidia");
  EXPECT_THAT(fix(), HasSubstr("modprobe mlx5_ib"));
  std::filesystem::create_directories(machine.path() / "sys/class/infiniband/mlx5_0");
  EXPECT_THAT(fix(), HasSubstr("nccl-gdr doctor shows why the HCAs"));
}

TEST(FindSofthca, MissingLibrary_NamesThePackage) {
  const TempFolder folder;
  const auto found = find_softhca((folder.path() / "bin").string());
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().text, HasSubstr("no libibverbs.so.1 in " + folder.path().string()));
  EXPECT_THAT(found.error().text, HasSubstr("install the package nccl-net-gdr-softhca"));
}

}  // namespace
}  // namespace gdr::tools
