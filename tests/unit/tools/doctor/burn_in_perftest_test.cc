#include "tools/doctor/burn_in_perftest.h"

#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/made_host.h"
#include "tests/unit/tools/doctor/made_perftest.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using transport::GidEntry;
using transport::GidType;

// The lines of the help of a perftest with CUDA (24.01, perftest_parameters.c).
constexpr char kCudaHelp[] =
    "      --use_cuda=<cuda device id> Use CUDA specific device for GPUDirect RDMA testing\n"
    "      --use_cuda_bus_id=<cuda full BUS id> Use CUDA specific device, based on its full PCIe "
    "address, for GPUDirect RDMA testing\n"
    "      --use_cuda_dmabuf Use CUDA DMA-BUF for GPUDirect RDMA testing\n";

BurnInEnd host_end() {
  BurnInEnd one;
  one.hca = "mlx5_0";
  one.port = 2;
  return one;
}

BurnInEnd gpu_end() {
  BurnInEnd one = host_end();
  one.gpu = 3;
  one.cuda_number = 1;
  one.gpu_address = "0000:1a:00.0";
  return one;
}

// A RoCE port with the GIDs that the kernel makes of one IPv4 address.
void add_roce_port(MadeHost* made, const std::string& link_layer = "Ethernet") {
  transport::Gid link_local{}, mapped{};
  link_local = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 1};
  mapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  RdmaPort port;
  port.number = 2;
  port.link_layer = link_layer;
  port.gids = {{{0, link_local, GidType::kRoceV1}, "eth0"},
               {{1, link_local, GidType::kRoceV2}, "eth0"},
               {{2, mapped, GidType::kRoceV1}, "eth0"},
               {{3, mapped, GidType::kRoceV2}, "eth0"}};
  RdmaHca hca;
  hca.name = "mlx5_0";
  hca.ports = {port};
  made->host.ports.hcas = {hca};
}

TEST(FindPerftest, InstalledPrograms_AreAskedForTheirVersion) {
  const MadePerftest made;
  const auto found = find_perftest(made.path() + ":/usr/bin:/bin");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->version, "6.06");
  EXPECT_EQ(found->write_bw, made.path() + "/ib_write_bw");
  EXPECT_EQ(found->send_lat, made.path() + "/ib_send_lat");
  EXPECT_FALSE(found->measures_gpus());
}

TEST(FindPerftest, Help_ListsWhatItWasBuiltWith) {
  const auto found = find_perftest(MadePerftest("6.20", kCudaHelp).path());
  EXPECT_TRUE(found->has_cuda);
  EXPECT_TRUE(found->has_cuda_bus_id);
  EXPECT_TRUE(found->has_cuda_dmabuf);
  const auto old = find_perftest(MadePerftest("6.00", "      --use_cuda  Use CUDA lib\n").path());
  EXPECT_TRUE(old->has_cuda);
  EXPECT_FALSE(old->has_cuda_bus_id);
  EXPECT_FALSE(old->has_cuda_dmabuf);
}

TEST(FindPerftest, MissingProgram_IsNamedWithThePackage) {
  MadePerftest made;
  made.remove("ib_send_lat");
  EXPECT_EQ(find_perftest(made.path())->send_lat, "");
  made.remove("ib_write_lat");
  EXPECT_THAT(find_perftest(made.path()).error().text,
              HasSubstr("ib_write_lat is not in PATH. Fix: install the package perftest"));
  EXPECT_THAT(find_perftest("").error().text, HasSubstr("ib_write_bw is not in PATH"));
}

TEST(PerftestArguments, Bandwidth_NamesPortAndSize) {
  EXPECT_THAT(perftest_arguments(PerftestProgram::kWriteBandwidth, {}, host_end(), {}, 29501),
              ElementsAre("-F", "--ib-dev=mlx5_0", "--ib-port=2", "--port=29501", "--size=4194304",
                          "--duration=4", "--report_gbits"));
}

TEST(PerftestArguments, Probe_IsAShortRunOfLatency) {
  EXPECT_STREQ(name_of(PerftestProgram::kProbe), "ib_write_lat");
  Perftest perftest;
  perftest.write_lat = "/usr/bin/ib_write_lat";
  EXPECT_EQ(path_of(perftest, PerftestProgram::kProbe), "/usr/bin/ib_write_lat");
  EXPECT_THAT(perftest_arguments(PerftestProgram::kProbe, {}, host_end(), {}, 29501),
              ::testing::IsSupersetOf({"--size=8", "--iters=10"}));
}

TEST(PerftestArguments, Latency_HasTheSettingsOfTheFabric) {
  const PerftestFabric fabric{.gid_index = 3,
                              .service_level = 5,
                              .traffic_class = 106,
                              .pkey_index = 1,
                              .uses_dmabuf = true};
  EXPECT_THAT(
      perftest_arguments(PerftestProgram::kWriteLatency, {}, host_end(), fabric, 29501),
      ElementsAre("-F", "--ib-dev=mlx5_0", "--ib-port=2", "--port=29501", "--size=8",
                  "--iters=1000", "--gid-index=3", "--sl=5", "--tclass=106", "--pkey_index=1"));
}

TEST(PerftestArguments, GpuMemory_IsNamedByItsAddressWherePossible) {
  Perftest perftest;
  perftest.has_cuda = true;
  PerftestFabric fabric;
  const auto last = [&] {
    return perftest_arguments(PerftestProgram::kWriteBandwidth, perftest, gpu_end(), fabric, 1)
        .back();
  };
  EXPECT_EQ(last(), "--use_cuda=1");
  perftest.has_cuda_bus_id = true;
  EXPECT_EQ(last(), "--use_cuda_bus_id=0000:1a:00.0");
  fabric.uses_dmabuf = true;
  EXPECT_EQ(last(), "--use_cuda_bus_id=0000:1a:00.0");
  perftest.has_cuda_dmabuf = true;
  EXPECT_EQ(last(), "--use_cuda_dmabuf");
}

TEST(PerftestArguments, OddNameOfADevice_StaysOneArgument) {
  BurnInEnd one = host_end();
  one.hca = "-x; rm *";
  EXPECT_THAT(perftest_arguments(PerftestProgram::kWriteLatency, {}, one, {}, 1),
              ::testing::Contains("--ib-dev=-x; rm *"));
}

TEST(PerftestFabric, RocePort_HasTheGidOfThePlugin) {
  MadeHost made;
  add_roce_port(&made);
  EXPECT_EQ(perftest_fabric(made.host, host_end())->gid_index, 3);
  made.host.environment = config::Environment{{"NCCL_IB_GID_INDEX", "1"}};
  EXPECT_EQ(perftest_fabric(made.host, host_end())->gid_index, 1);
}

TEST(PerftestFabric, InfinibandPort_HasNoGid) {
  MadeHost made;
  add_roce_port(&made, "InfiniBand");
  const auto fabric = perftest_fabric(made.host, host_end());
  EXPECT_FALSE(fabric->gid_index.has_value());
  EXPECT_EQ(fabric->service_level, -1);
  EXPECT_FALSE(fabric->uses_dmabuf);
  EXPECT_EQ(perftest_fabric(made.host, host_end(), true)->gid_index, 0);
}

TEST(PerftestFabric, Settings_AreThoseOfNccl) {
  MadeHost made;
  add_roce_port(&made);
  made.host.environment =
      config::Environment{{"NCCL_IB_SL", "5"}, {"NCCL_IB_TC", "106"}, {"NCCL_IB_PKEY", "2"}};
  made.host.gpus.hcas["mlx5_0"].dmabuf = true;
  const auto fabric = perftest_fabric(made.host, gpu_end());
  EXPECT_EQ(fabric->service_level, 5);
  EXPECT_EQ(fabric->traffic_class, 106);
  EXPECT_EQ(fabric->pkey_index, 2);
  EXPECT_TRUE(fabric->uses_dmabuf);
}

TEST(PerftestFabric, RocePortWithoutUsableGid_IsAnError) {
  MadeHost made;
  add_roce_port(&made);
  made.host.environment = config::Environment{{"NCCL_IB_GID_INDEX", "99"}};
  EXPECT_FALSE(perftest_fabric(made.host, host_end()).has_value());
}

}  // namespace
}  // namespace gdr::tools::doctor
