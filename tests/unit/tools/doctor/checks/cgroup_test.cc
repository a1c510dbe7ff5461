#include "tests/unit/tools/doctor/facts/made_host.h"

namespace gdr::tools::doctor {
namespace {

// Files of a process in the group "job" of cgroup v2.
auto in_group(std::map<std::string, std::string> limits) {
  return [limits](MadeHost* made) {
    made->write("/proc/self/cgroup", "0::/job\n");
    made->write("/sys/fs/cgroup/job/cgroup.procs", "1\n");
    for (const auto& [name, text] : limits) made->write("/sys/fs/cgroup/job/" + name, text + "\n");
  };
}

TEST(Cgroup, EachCase_HasItsVerdict) {
  const std::string objects = "mlx5_0 hca_handle=max hca_object=";
  expect_worst<MadeHost>(
      "cgroup",
      {{"no limit",
        in_group({{"pids.max", "max"}, {"memory.max", "max"}, {"rdma.max", objects + "max"}}),
        Verdict::kOk, "", "no limit of tasks, memory or RDMA objects is set"},
       {"1000 tasks left", in_group({{"pids.max", "1024"}, {"pids.current", "24"}}), Verdict::kOk},
       {"124 tasks left", in_group({{"pids.max", "1024"}, {"pids.current", "900"}}),
        Verdict::kWarning},
       {"one task left", in_group({{"pids.max", "1024"}, {"pids.current", "1023"}}),
        Verdict::kFailure},
       {"limit of the group above",
        with_files({{"/proc/self/cgroup", "0::/slice/job\n"},
                    {"/sys/fs/cgroup/slice/pids.max", "100\n"},
                    {"/sys/fs/cgroup/slice/pids.current", "99\n"},
                    {"/sys/fs/cgroup/slice/job/pids.max", "max\n"}}),
        Verdict::kFailure, "tasks", "99 of 100 tasks are in use (/sys/fs/cgroup/slice/pids.max)"},
       {"many RDMA objects", in_group({{"rdma.max", objects + "100000"}}), Verdict::kOk},
       {"few RDMA objects", in_group({{"rdma.max", objects + "100"}}), Verdict::kWarning},
       {"few RDMA objects left",
        in_group(
            {{"rdma.max", objects + "100"}, {"rdma.current", "mlx5_0 hca_handle=1 hca_object=95"}}),
        Verdict::kFailure, "mlx5_0",
        "95 of 100 hca_object are in use (/sys/fs/cgroup/job/rdma.max)"},
       {"no handle of the HCA", in_group({{"rdma.max", "mlx5_0 hca_handle=0 hca_object=max"}}),
        Verdict::kFailure},
       {"memory in use", in_group({{"memory.max", "1073741824"}, {"memory.current", "1073000000"}}),
        Verdict::kWarning},
       {"memory in use as the cache of files",
        in_group({{"memory.max", "1073741824"},
                  {"memory.current", "1073000000"},
                  {"memory.stat", "anon 5\ninactive_file 500000000\nactive_file 100000000"}}),
        Verdict::kOk},
       {"version 1",
        with_files({{"/proc/self/cgroup", "8:pids:/docker/1\n4:memory:/docker/1\n"},
                    {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
                    {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n"},
                    {"/sys/fs/cgroup/pids/pids.max", "50\n"},
                    {"/sys/fs/cgroup/pids/pids.current", "49\n"}}),
        Verdict::kFailure, "tasks"},
       {"odd text",
        with_files({{"/proc/self/cgroup", "::\nx\n0::job\n0::/../other\n0::/job\n"},
                    {"/sys/fs/cgroup/job/pids.max", "-1\n"},
                    {"/sys/fs/cgroup/job/rdma.max", "\n hca_object=\nmlx5_0\n"}}),
        Verdict::kOk},
       {"without /proc", [](MadeHost*) {}, Verdict::kUnknown}});
}

}  // namespace
}  // namespace gdr::tools::doctor
