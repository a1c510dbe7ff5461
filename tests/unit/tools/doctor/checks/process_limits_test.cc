#include "tests/unit/tools/doctor/facts/made_host.h"

namespace gdr::tools::doctor {
namespace {

constexpr char kEightMebibytes[] =
    "Max locked memory         8388608              8388608              bytes     \n";

// The process may lock that much memory, on a machine with an HCA.
auto may_lock(const std::string& limits, std::map<std::string, std::string> files = {}) {
  files["/sys/class/infiniband/mlx5_0/node_type"] = "1: CA\n";
  files["/proc/self/limits"] = limits;
  return [files](MadeHost* made) { made->write_files(files); };
}

TEST(MemoryLock, EachCase_HasItsVerdict) {
  const auto in = [](Container container) {
    return [container](MadeHost* made) {
      may_lock(kEightMebibytes)(made);
      made->host.process.container = container;
    };
  };
  const auto with_library = [](bool is_software_hca) {
    return [is_software_hca](MadeHost* made) {
      may_lock(kEightMebibytes)(made);
      made->host.libraries.verbs = {{"/build/libibverbs.so.1", "LD_LIBRARY_PATH", ""}};
      made->host.libraries.verbs[0].is_software_hca = is_software_hca;
    };
  };
  expect_worst<MadeHost>(
      "memory-lock",
      {{"unlimited", may_lock("Max locked memory         unlimited            unlimited\n"),
        Verdict::kOk},
       {"8 MiB", may_lock(kEightMebibytes), Verdict::kFailure, "",
        "memlock of this process is 8192 KiB (/proc/self/limits)", "/etc/security/limits.d"},
       {"8 MiB without an HCA",
        [](MadeHost* made) { made->write("/proc/self/limits", kEightMebibytes); }, Verdict::kOk},
       {"8 MiB with a library", with_library(false), Verdict::kFailure},
       {"8 MiB with the software HCA", with_library(true), Verdict::kOk},
       {"512 MiB", may_lock("Max locked memory  536870912  536870912  bytes\n"), Verdict::kWarning},
       {"CAP_IPC_LOCK",
        may_lock(kEightMebibytes,
                 {{"/proc/self/status", "Name:\tdoctor\nCapEff:\t0000000000004000\n"},
                  {"/proc/self/uid_map", "         0          0 4294967295\n"}}),
        Verdict::kOk},
       {"CAP_IPC_LOCK of a user namespace",
        may_lock(kEightMebibytes, {{"/proc/self/status", "CapEff:\t000001ffffffffff\n"},
                                   {"/proc/self/uid_map", "0 1000 1\n1 100000 65536\n"}}),
        Verdict::kFailure},
       {"unlimited hard limit", may_lock("Max locked memory  65536  unlimited  bytes\n"),
        Verdict::kFailure, "", "",
        "run \"ulimit -l unlimited\" in the job's script, which the hard limit allows", ""},
       {"of a service",
        may_lock(kEightMebibytes, {{"/proc/self/cgroup", "0::/system.slice/worker.service\n"}}),
        Verdict::kFailure, "", "",
        "set LimitMEMLOCK=infinity for worker.service (systemctl edit) and restart it", ""},
       {"of a job of Slurm's",
        [](MadeHost* made) {
          may_lock(kEightMebibytes)(made);
          made->host.process.in_slurm_job = true;
        },
        Verdict::kFailure, "", "", "PropagateResourceLimitsExcept=MEMLOCK", ""},
       {"of a pod", in(Container::kKubernetes), Verdict::kFailure, "", "", "IPC_LOCK", ""},
       {"in Docker", in(Container::kDocker), Verdict::kFailure, "", "",
        "start the container with --ulimit memlock=-1:-1", ""},
       {"without /proc", [](MadeHost*) {}, Verdict::kUnknown},
       {"odd text", may_lock("Max locked memory         many\n"), Verdict::kUnknown}});
}

}  // namespace
}  // namespace gdr::tools::doctor
