#include "tests/unit/tools/doctor/facts/made_host.h"

namespace gdr::tools::doctor {
namespace {

constexpr char kFile[] = "/etc/nccl.conf";

// A file of NCCL with that text, whose variables are in force.
auto conf(const std::string& text) {
  return [text](MadeHost* made) {
    made->write(kFile, text);
    config::add_nccl_conf(made->host.path(kFile).string(), &made->host.environment,
                          &made->host.conf_places);
  };
}

TEST(NcclConf, EachCase_HasItsVerdict) {
  expect_worst<MadeHost>(
      "nccl-conf",
      {{"no file", [](MadeHost* made) { made->write("/etc/hostname", "a"); }, Verdict::kOk},
       {"no /etc", [](MadeHost*) {}, Verdict::kUnknown, "", "", "copy /etc"},
       {"one variable", conf("NCCL_DEBUG=INFO\n"), Verdict::kOk, "", "it sets 1 variable of NCCL"},
       {"good", conf("# comment\n\nNCCL_DEBUG=INFO\nNCCL_IB_HCA=mlx5_0,mlx5_1\n"), Verdict::kOk, "",
        "it sets 2 variables of NCCL or the plugin"},
       {"blanks around the sign", conf("NCCL_DEBUG=INFO\nNCCL_IB_HCA = mlx5_0\n"),
        Verdict::kWarning, "nccl.conf:2", "", "with the name in capitals"},
       {"missing",
        [](MadeHost* made) {
          made->host.is_live = true;
          made->host.environment["NCCL_CONF_FILE"] = made->host.path("/missing.conf").string();
        },
        Verdict::kWarning},
       {"folder", [](MadeHost* made) { made->write("/etc/nccl.conf/file", ""); },
        Verdict::kWarning}});
}

TEST(NcclConf, LinesOfWindows_AreOneWarning) {
  MadeHost made;
  conf("NCCL_DEBUG=INFO\r\n\r\nNCCL_IB_HCA=mlx5_0\r\n")(&made);
  const Observations seen = seen_by("nccl-conf", made.host);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  EXPECT_TRUE(seen[0].fix.starts_with("sed -i 's/\\r$//' '/")) << seen[0].fix;
  EXPECT_EQ(seen[1].verdict, Verdict::kOk);
}

TEST(NcclConf, LinesThatNcclMisreads_AreWarnings) {
  for (const char* line :
       {"NCCL_DEBUG INFO", "export NCCL_DEBUG=INFO", " NCCL_DEBUG=INFO", "NCCL_DEBUG= INFO",
        "NCCL_DEBUG=\"INFO\"", "NCCL_DEBUG=INFO # all", "NCCL_SOCKET_IFNAME=eth0 ",
        "\xef\xbb\xbfNCCL_DEBUG=INFO", "nccl_debug=INFO", "NCCL-DEBUG=INFO"}) {
    MadeHost made;
    conf(std::string(line) + "\n")(&made);
    EXPECT_EQ(worst_of("nccl-conf", made.host).verdict, Verdict::kWarning) << line;
  }
}

}  // namespace
}  // namespace gdr::tools::doctor
