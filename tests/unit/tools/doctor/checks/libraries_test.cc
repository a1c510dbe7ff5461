#include "tests/unit/tools/doctor/facts/made_host.h"

namespace gdr::tools::doctor {
namespace {

LibraryFile nccl_of(const std::string& version, const std::string& found_by) {
  return {"/lib/" + found_by + "/libnccl.so.2", found_by, version};
}

auto with_nccl(LibraryFiles files, const char* plugin = "") {
  return [=](MadeHost* made) {
    made->host.libraries.is_known = true;
    made->host.libraries.nccl = files;
    if (*plugin != 0) made->host.environment["NCCL_NET_PLUGIN"] = plugin;
  };
}

TEST(NcclLibrary, EachCase_HasItsVerdict) {
  const LibraryFile in_path = nccl_of("2.20.5", "LD_LIBRARY_PATH");
  expect_worst<MadeHost>(
      "nccl-library",
      {{"recent", with_nccl({nccl_of("2.28.9", "cache")}), Verdict::kOk, "",
        "/lib/cache/libnccl.so.2 is NCCL 2.28.9 (by cache)"},
       {"old", with_nccl({nccl_of("2.18.5", "cache")}), Verdict::kOk},
       {"old, with the plugin", with_nccl({nccl_of("2.18.5", "cache")}, "gdr"), Verdict::kFailure},
       {"another in front of Python's", with_nccl({in_path, nccl_of("2.27.3", "Python")}),
        Verdict::kWarning},
       {"the same in front of Python's", with_nccl({in_path, nccl_of("2.20.5", "Python")}),
        Verdict::kOk},
       {"unknown version", with_nccl({nccl_of("", "cache")}), Verdict::kOk},
       {"not installed", with_nccl({}), Verdict::kUnknown},
       {"of another machine", [](MadeHost*) {}, Verdict::kUnknown}});
}

// The verbs library, on a machine with or without an mlx5 HCA.
auto with_verbs(bool has_hca = true, bool is_software_hca = false) {
  return [=](MadeHost* made) {
    LibraryFile verbs{"/usr/lib/libibverbs.so.1", "/etc/ld.so.cache", "1.14.44.0"};
    if (is_software_hca) verbs = {"/build/softhca/libibverbs.so.1", "LD_LIBRARY_PATH", ""};
    verbs.is_software_hca = is_software_hca;
    made->host.libraries.is_known = true;
    made->host.libraries.verbs = {verbs};
    if (!has_hca) return;
    made->link("/sys/class/infiniband/mlx5_0/device/driver", "/sys/bus/pci/drivers/mlx5_core");
  };
}

TEST(VerbsLibrary, EachCase_HasItsVerdict) {
  expect_worst<MadeHost>(
      "verbs-library",
      {{"installed", with_verbs(), Verdict::kOk, "",
        "/usr/lib/libibverbs.so.1 is version 1.14.44.0 (by /etc/ld.so.cache)"},
       {"software HCA alone", with_verbs(false, true), Verdict::kOk},
       {"software HCA beside a real one", with_verbs(true, true), Verdict::kWarning, "", "",
        "remove /build/softhca from LD_LIBRARY_PATH"},
       {"not installed", [](MadeHost* made) { made->host.libraries.is_known = true; },
        Verdict::kOk},
       {"not installed beside an HCA",
        [](MadeHost* made) {
          with_verbs()(made);
          made->host.libraries.verbs.clear();
        },
        Verdict::kFailure},
       {"of another machine", [](MadeHost*) {}, Verdict::kUnknown}});
}

}  // namespace
}  // namespace gdr::tools::doctor
