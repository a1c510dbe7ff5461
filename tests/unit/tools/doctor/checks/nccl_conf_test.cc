#include <gtest/gtest.h>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

constexpr char kFile[] = "/etc/nccl.conf";

Observations seen_of(const std::string& text) {
  MadeHost made;
  made.write(kFile, text);
  config::add_nccl_conf(made.host.path(kFile).string(), &made.host.environment,
                        &made.host.conf_places);
  return nccl_conf().run(made.host);
}

TEST(NcclConf, NoFile_IsOk) {
  MadeHost made;
  EXPECT_EQ(verdict_of(nccl_conf(), made.host), Verdict::kOk);
}

TEST(NcclConf, GoodFile_IsOk) {
  const Observations seen = seen_of("# comment\n\nNCCL_DEBUG=INFO\nNCCL_IB_HCA=mlx5_0,mlx5_1\n");
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kOk);
  EXPECT_EQ(seen[0].evidence, "it sets 2 variables of NCCL or the plugin");
}

TEST(NcclConf, LinesOfWindows_AreOneWarning) {
  const Observations seen = seen_of("NCCL_DEBUG=INFO\r\n\r\nNCCL_IB_HCA=mlx5_0\r\n");
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  EXPECT_TRUE(seen[0].fix.starts_with("sed -i 's/\\r$//' '/")) << seen[0].fix;
  EXPECT_EQ(seen[1].verdict, Verdict::kOk);
}

TEST(NcclConf, BlanksAroundTheSign_AreAWarningWithTheLine) {
  const Observations seen = seen_of("NCCL_DEBUG=INFO\nNCCL_IB_HCA = mlx5_0\n");
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  EXPECT_TRUE(seen[0].subject.ends_with("nccl.conf:2")) << seen[0].subject;
  EXPECT_EQ(seen[0].fix, "remove the blanks");
}

TEST(NcclConf, LinesThatNcclMisreads_AreWarnings) {
  for (const char* line :
       {"NCCL_DEBUG INFO", "export NCCL_DEBUG=INFO", " NCCL_DEBUG=INFO", "NCCL_DEBUG= INFO",
        "NCCL_DEBUG=\"INFO\"", "NCCL_DEBUG=INFO # all", "NCCL_SOCKET_IFNAME=eth0 "}) {
    EXPECT_EQ(seen_of(std::string(line) + "\n")[0].verdict, Verdict::kWarning) << line;
  }
}

TEST(NcclConf, Overridden_IsOkAndNamed) {
  MadeHost made;
  made.write(kFile, "NCCL_DEBUG=INFO\n");
  made.host.environment["NCCL_DEBUG"] = "WARN";
  const Observations seen = nccl_conf().run(made.host);
  EXPECT_EQ(seen[0].verdict, Verdict::kOk);
  EXPECT_EQ(seen[0].evidence,
            "the environment or another file overrides NCCL_DEBUG (line 1, but \"WARN\" is in "
            "force)");
}

TEST(NcclConf, NamedFileIsMissing_IsAWarning) {
  MadeHost made;
  made.host.is_live = true;
  made.host.environment["NCCL_CONF_FILE"] = made.host.path("/missing.conf").string();
  EXPECT_EQ(verdict_of(nccl_conf(), made.host), Verdict::kWarning);
}

TEST(NcclConf, Folder_IsAWarning) {
  MadeHost made;
  made.write("/etc/nccl.conf/file", "");
  EXPECT_EQ(verdict_of(nccl_conf(), made.host), Verdict::kWarning);
}

}  // namespace
}  // namespace gdr::tools::doctor
