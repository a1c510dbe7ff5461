#include <gtest/gtest.h>

#include <cerrno>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

void add_device(MadeHost* made, const std::string& device, const std::string& uverbs) {
  made->write("/sys/class/infiniband/" + device + "/node_type", "1: CA\n");
  made->write("/sys/class/infiniband_verbs/" + uverbs + "/ibdev", device + "\n");
}

TEST(DeviceFiles, FileCanBeOpened_IsOk) {
  MadeHost made;
  add_device(&made, "mlx5_0", "uverbs0");
  made.host.process.uverbs = {{"uverbs0", 0}};
  EXPECT_EQ(verdict_of(device_files(), made.host), Verdict::kOk);
}

TEST(DeviceFiles, NoFileInAContainer_IsAFailureWithTheOption) {
  MadeHost made;
  add_device(&made, "mlx5_0", "uverbs0");
  made.host.process.uverbs.emplace();
  made.host.process.container = Container::kDocker;
  const Observations seen = device_files().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[0].subject, "mlx5_0");
  EXPECT_EQ(seen[0].fix, "start the container with --device=/dev/infiniband");
}

TEST(DeviceFiles, OneOfTwoInAContainer_IsOk) {
  MadeHost made;
  add_device(&made, "mlx5_0", "uverbs0");
  add_device(&made, "mlx5_1", "uverbs1");
  made.host.process.uverbs = {{"uverbs1", 0}};
  made.host.process.container = Container::kKubernetes;
  EXPECT_EQ(verdict_of(device_files(), made.host), Verdict::kOk);
}

TEST(DeviceFiles, OneOfTwoOnAMachine_IsAFailure) {
  MadeHost made;
  add_device(&made, "mlx5_0", "uverbs0");
  add_device(&made, "mlx5_1", "uverbs1");
  made.host.process.uverbs = {{"uverbs1", 0}};
  const Observations seen = device_files().run(made.host);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[0].fix, "udevadm trigger --subsystem-match=infiniband_verbs");
  EXPECT_EQ(seen[1].verdict, Verdict::kOk);
}

TEST(DeviceFiles, DeniedToTheUser_NamesTheUdevRule) {
  MadeHost made;
  add_device(&made, "mlx5_0", "uverbs0");
  made.host.process.uverbs = {{"uverbs0", EACCES}};
  const Observations seen = device_files().run(made.host);
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[0].evidence,
            "/dev/infiniband/uverbs0 cannot be opened: Permission denied (errno 13)");
  EXPECT_NE(seen[0].fix.find("MODE=\"0666\""), std::string::npos);
}

TEST(DeviceFiles, DeniedByTheDeviceCgroup_NamesIt) {
  MadeHost made;
  add_device(&made, "mlx5_0", "uverbs0");
  made.host.process.uverbs = {{"uverbs0", EPERM}};
  made.host.process.container = Container::kPodman;
  const Observations seen = device_files().run(made.host);
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_NE(seen[0].evidence.find("device cgroup"), std::string::npos);
}

TEST(DeviceFiles, WithoutUverbs_LoadsTheModule) {
  MadeHost made;
  made.write("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
  const Observations seen = device_files().run(made.host);
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  ASSERT_EQ(seen[0].steps.size(), 1u);
  EXPECT_EQ(seen[0].steps[0].command, "modprobe ib_uverbs");
}

TEST(DeviceFiles, DeviceWithoutUverbs_IsAWarning) {
  MadeHost made;
  add_device(&made, "mlx5_0", "uverbs0");
  made.write("/sys/class/infiniband/mlx5_1/node_type", "1: CA\n");
  made.host.process.uverbs = {{"uverbs0", 0}};
  EXPECT_EQ(verdict_of(device_files(), made.host), Verdict::kWarning);
}

TEST(DeviceFiles, OfAnotherMachine_IsUnknown) {
  MadeHost made;
  add_device(&made, "mlx5_0", "uverbs0");
  EXPECT_EQ(verdict_of(device_files(), made.host), Verdict::kUnknown);
}

TEST(DeviceFiles, None_IsOk) {
  MadeHost made;
  EXPECT_EQ(verdict_of(device_files(), made.host), Verdict::kNothing);
}

}  // namespace
}  // namespace gdr::tools::doctor
