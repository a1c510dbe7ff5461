#include <gtest/gtest.h>

#include "tests/unit/tools/doctor/facts/made_host.h"
#include "tools/doctor/facts/host.h"

namespace gdr::tools::doctor {
namespace {

Container container_of(const MadeHost& made) { return read_process_facts(made.host).container; }

TEST(ReadProcessFacts, PlainMachine_IsInNoContainer) {
  MadeHost made;
  made.write("/proc/1/cgroup", "0::/init.scope\n");
  EXPECT_EQ(container_of(made), Container::kNone);
}

TEST(ReadProcessFacts, FilesOfTheEngine_NameTheContainer) {
  MadeHost docker, podman, kubernetes;
  docker.write("/.dockerenv", "");
  podman.write("/run/.containerenv", "");
  kubernetes.write("/.dockerenv", "");
  kubernetes.write("/proc/1/cgroup", "5:pids:/kubepods/burstable/pod1/2\n");
  EXPECT_EQ(container_of(docker), Container::kDocker);
  EXPECT_EQ(container_of(podman), Container::kPodman);
  EXPECT_EQ(container_of(kubernetes), Container::kKubernetes);
}

TEST(ReadProcessFacts, OfAnotherMachine_HasNoLiveFacts) {
  MadeHost made;
  const ProcessFacts facts = read_process_facts(made.host);
  EXPECT_FALSE(facts.uverbs.has_value());
}

TEST(RdmaDeviceNames, AreSortedByTheirNumbers) {
  MadeHost made;
  for (const char* name : {"mlx5_10", "mlx5_2"}) {
    made.write(std::string("/sys/class/infiniband/") + name + "/node_type", "1: CA\n");
  }
  EXPECT_EQ(rdma_device_names(made.host), (std::vector<std::string>{"mlx5_2", "mlx5_10"}));
}

TEST(RdmaDeviceNames, WithoutSysfs_AreThoseOfVerbs) {
  MadeHost made;
  made.host.ports.hcas.emplace_back().name = "softhca0";
  EXPECT_EQ(rdma_device_names(made.host), std::vector<std::string>{"softhca0"});
}

}  // namespace
}  // namespace gdr::tools::doctor
