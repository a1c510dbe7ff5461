#include <gtest/gtest.h>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

void add_nccl(MadeHost* made, const std::string& version, const std::string& found_by) {
  made->host.libraries.is_known = true;
  made->host.libraries.nccl.push_back({"/lib/" + found_by + "/libnccl.so.2", found_by, version});
}

TEST(NcclLibrary, RecentRelease_IsOk) {
  MadeHost made;
  add_nccl(&made, "2.28.9", "cache");
  const Observations seen = nccl_library().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kOk);
  EXPECT_EQ(seen[0].evidence, "/lib/cache/libnccl.so.2 is NCCL 2.28.9 (by cache)");
}

TEST(NcclLibrary, OldRelease_IsAFailureWithThePlugin) {
  MadeHost made;
  add_nccl(&made, "2.18.5", "cache");
  EXPECT_EQ(verdict_of(nccl_library(), made.host), Verdict::kOk);
  made.host.environment["NCCL_NET_PLUGIN"] = "gdr";
  EXPECT_EQ(verdict_of(nccl_library(), made.host), Verdict::kFailure);
}

TEST(NcclLibrary, LdLibraryPathBeforePython_IsAWarning) {
  MadeHost made;
  add_nccl(&made, "2.20.5", "LD_LIBRARY_PATH");
  add_nccl(&made, "2.27.3", "Python");
  EXPECT_EQ(verdict_of(nccl_library(), made.host), Verdict::kWarning);
  made.host.libraries.nccl[0].version = "2.27.3";
  EXPECT_EQ(verdict_of(nccl_library(), made.host), Verdict::kOk);
}

TEST(NcclLibrary, UnknownVersion_IsOk) {
  MadeHost made;
  add_nccl(&made, "", "cache");
  EXPECT_EQ(verdict_of(nccl_library(), made.host), Verdict::kOk);
}

TEST(NcclLibrary, NotInstalled_IsUnknown) {
  MadeHost made;
  EXPECT_EQ(verdict_of(nccl_library(), made.host), Verdict::kUnknown);
  made.host.libraries.is_known = true;
  EXPECT_EQ(verdict_of(nccl_library(), made.host), Verdict::kUnknown);
}

}  // namespace
}  // namespace gdr::tools::doctor
