#include <gtest/gtest.h>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

void add_verbs(MadeHost* made) {
  LibraryFile verbs{"/usr/lib/libibverbs.so.1", "/etc/ld.so.cache", "1.14.44.0"};
  verbs.provider_abi = "34";
  made->host.libraries.is_known = true;
  made->host.libraries.verbs = {verbs};
}

void add_mlx5(MadeHost* made) {
  made->link("/sys/class/infiniband/mlx5_0/device/driver", "/sys/bus/pci/drivers/mlx5_core");
}

TEST(VerbsLibrary, WithTheProvider_IsOk) {
  MadeHost made;
  add_verbs(&made);
  add_mlx5(&made);
  made.host.libraries.providers = {"libmlx4-rdmav34.so", "libmlx5-rdmav34.so"};
  const Observations seen = verbs_library().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kOk);
  EXPECT_EQ(seen[0].evidence,
            "/usr/lib/libibverbs.so.1 is version 1.14.44.0 (by /etc/ld.so.cache)");
}

TEST(VerbsLibrary, WithoutTheProvider_IsAFailureThatNamesTheHca) {
  MadeHost made;
  add_verbs(&made);
  add_mlx5(&made);
  made.host.libraries.providers = {"librxe-rdmav34.so"};
  const Observations seen = verbs_library().run(made.host);
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[0].subject, "mlx5_0");
  EXPECT_NE(seen[0].fix.find("ibverbs-providers"), std::string::npos);
}

TEST(VerbsLibrary, ProviderOfAnotherRelease_IsAFailure) {
  MadeHost made;
  add_verbs(&made);
  add_mlx5(&made);
  made.host.libraries.providers = {"libmlx5-rdmav57.so"};
  const Observations seen = verbs_library().run(made.host);
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_NE(seen[0].evidence.find("only that of another release"), std::string::npos);
}

TEST(VerbsLibrary, ProvidersInAnUnknownFolder_AreNotJudged) {
  MadeHost made;
  add_verbs(&made);
  add_mlx5(&made);
  EXPECT_EQ(verdict_of(verbs_library(), made.host), Verdict::kOk);
}

TEST(VerbsLibrary, SoftwareHcaBesideARealOne_IsAWarning) {
  MadeHost made;
  add_verbs(&made);
  made.host.libraries.verbs[0] = {"/build/softhca/libibverbs.so.1", "LD_LIBRARY_PATH", ""};
  made.host.libraries.verbs[0].is_software_hca = true;
  EXPECT_EQ(verdict_of(verbs_library(), made.host), Verdict::kOk);
  add_mlx5(&made);
  const Observations seen = verbs_library().run(made.host);
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  EXPECT_EQ(seen[0].fix, "remove /build/softhca from LD_LIBRARY_PATH");
}

TEST(VerbsLibrary, NotInstalled_IsAFailureBesideAnHca) {
  MadeHost made;
  made.host.libraries.is_known = true;
  EXPECT_EQ(verdict_of(verbs_library(), made.host), Verdict::kOk);
  add_mlx5(&made);
  EXPECT_EQ(verdict_of(verbs_library(), made.host), Verdict::kFailure);
}

TEST(VerbsLibrary, OfAnotherMachine_IsUnknown) {
  MadeHost made;
  EXPECT_EQ(verdict_of(verbs_library(), made.host), Verdict::kUnknown);
}

}  // namespace
}  // namespace gdr::tools::doctor
