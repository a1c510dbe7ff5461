#include "softhca/model/config.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace softhca {
namespace {

std::string error_of(const std::string& text) {
  gdr::Result<Config> config = Config::load(text.c_str());
  return config ? "" : config.error().text;
}

TEST(Config, Unset_TwoInfiniBandDevices) {
  gdr::Result<Config> config = Config::load(nullptr);
  ASSERT_TRUE(config);
  ASSERT_EQ(config->devices.size(), 2u);
  EXPECT_EQ(config->devices[0].name, "softhca0");
  EXPECT_EQ(config->devices[1].name, "softhca1");
  EXPECT_EQ(config->devices[0].lid, 1);
  EXPECT_EQ(config->devices[1].lid, 2);
  EXPECT_NE(config->devices[0].guid, config->devices[1].guid);
  EXPECT_EQ(config->devices[0].speed_gbps, 400u);
  EXPECT_EQ(config->devices[0].gid_table(1).size(), 1u);
}

TEST(Config, AllFieldsGiven_AreRead) {
  gdr::Result<Config> config = Config::load(R"({
    "fabric": "mine", "process_vm": false, "staging_bytes": 1048576,
    "devices": [
      {"name": "a", "ports": 2, "lid": 7, "pci": "0000:3b:00.0", "numa_node": 1, "guid": "0xabc",
       "rate_gbps": 12.5, "latency_us": 3, "registration_us": 1.5,
       "registration_us_per_mib": 40, "mtu": 1024, "speed_gbps": 100, "max_inline": 64,
       "max_qp": 9, "max_qp_wr": 100},
      {"link_layer": "Ethernet", "gids": ["::ffff:10.1.2.3"]}],
    "gpu": {"dmabuf": false, "peermem": false, "bar1_bytes": 5, "context": "own"},
    "faults": [{"kind": "port_down", "device": "a", "port": 2, "after_bytes": 100}]})");
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->fabric, "mine");
  EXPECT_FALSE(config->process_vm);
  const DeviceConfig& device = config->devices[0];
  EXPECT_EQ(device.ports, 2u);
  EXPECT_EQ(device.lid, 7);
  EXPECT_EQ(device.pci, "0000:3b:00.0");
  EXPECT_EQ(device.guid, 0xabcu);
  EXPECT_EQ(device.rate_gbps, 12.5);
  EXPECT_EQ(device.registration_us, 1.5);
  EXPECT_EQ(device.registration_us_per_mib, 40);
  EXPECT_EQ(device.max_qp_wr, 100u);
  std::vector<GidEntry> gids = config->devices[1].gid_table(1);
  ASSERT_EQ(gids.size(), 4u);
  EXPECT_EQ(gids[2].type, IBV_GID_TYPE_ROCE_V1);
  EXPECT_EQ(gids[3].type, IBV_GID_TYPE_ROCE_V2);
  EXPECT_EQ(gids[3].gid.raw[10], 0xff);
  EXPECT_EQ(gids[3].gid.raw[15], 3);
  EXPECT_EQ(config->gpu.peermem, PeermemModule::kNone);
  EXPECT_EQ(config->gpu.bar1_bytes, 5u);
  EXPECT_TRUE(config->gpu.own_context);
  EXPECT_EQ(config->faults[0].after_bytes, 100u);
}

TEST(Config, File_IsRead) {
  std::string path = testing::TempDir() + "softhca.json";
  std::ofstream(path) << R"(/* comments are fine */ {"devices": [{"name": "from_file"}]})";
  gdr::Result<Config> config = Config::load(path.c_str());
  std::remove(path.c_str());
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->devices[0].name, "from_file");
}

TEST(Config, Peermem_NamesTheModule) {
  auto module_of = [](const std::string& gpu) {
    return Config::load(("{\"gpu\": " + gpu + "}").c_str())->gpu.peermem;
  };
  EXPECT_EQ(module_of("{}"), PeermemModule::kNvidiaPeermem);
  EXPECT_EQ(module_of(R"({"peermem": true})"), PeermemModule::kNvidiaPeermem);
  EXPECT_EQ(module_of(R"({"peermem": "nv_peer_mem"})"), PeermemModule::kNvPeerMem);
}

TEST(Config, LidsNotGiven_DoNotCollideWithGivenOnes) {
  gdr::Result<Config> config =
      Config::load(R"({"devices": [{}, {"lid": 1, "ports": 2}, {"ports": 2}, {}]})");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->devices[0].lid, 3);
  EXPECT_EQ(config->devices[2].lid, 4);
  EXPECT_EQ(config->devices[3].lid, 6);
}

struct Wrong {
  const char* text;
  const char* expected;  // the field, and what is accepted
};

// GoogleTest shows a case by this instead of by the bytes of the object.
void PrintTo(const Wrong& one, std::ostream* out) { *out << one.text; }

class WrongConfig : public testing::TestWithParam<Wrong> {};

TEST_P(WrongConfig, Load_NamesFieldAndWhatIsAccepted) {
  std::string error = error_of(GetParam().text);
  EXPECT_NE(error.find(GetParam().expected), std::string::npos) << error;
}

INSTANTIATE_TEST_SUITE_P(
    Each, WrongConfig,
    testing::Values(
        Wrong{R"({"fabrik": "x"})", R"(unknown field "fabrik"; known here are: devices, fabric)"},
        Wrong{R"({"devices": [{}, {"nmae": "x"}]})", R"(unknown field "devices[1].nmae")"},
        Wrong{R"({"devices": [{"ports": 5}]})",
              R"("devices[0].ports": accepted is an integer from 1 to 4)"},
        Wrong{R"({"devices": [{"ports": "1"}]})", R"("devices[0].ports")"},
        Wrong{R"({"devices": [{"ports": -1}]})", R"("devices[0].ports")"},
        Wrong{R"({"devices": [{"link_layer": "ethernet"}]})", R"("InfiniBand" or "Ethernet")"},
        Wrong{R"({"devices": [{"mtu": 1500}]})", "256, 512, 1024, 2048 or 4096"},
        Wrong{R"({"devices": [{"pci": "3b:00.0"}]})", R"("0000:3b:00.0")"},
        Wrong{R"({"devices": [{"gids": ["10.0.0.1"]}]})", "IPv6 addresses"},
        Wrong{R"({"devices": [{"rate_gbps": -1}]})",
              R"("devices[0].rate_gbps": accepted is a number)"},
        Wrong{R"({"devices": [{"registration_us": 10000001}]})",
              R"("devices[0].registration_us": accepted is a number from 0 to 1e+07)"},
        Wrong{R"({"devices": [{"name": "a"}, {"name": "a"}]})", "a name not used before"},
        Wrong{R"({"devices": {}})", R"("devices": accepted is a list)"},
        Wrong{R"({"gpu": {"context": "mine"}})", R"("application" or "own")"},
        Wrong{R"({"gpu": {"peermem": "nvidia_peermem"}})",
              R"("gpu.peermem": accepted is true, false or "nv_peer_mem")"},
        Wrong{R"({"gpu": {"dmabuf": 1}})", R"("gpu.dmabuf": accepted is true or false)"},
        Wrong{R"({"faults": [{"device": "softhca0"}]})", R"("faults[0].kind")"},
        Wrong{R"({"faults": [{"kind": "port_down", "device": "x"}]})", R"("faults[0].device")"},
        Wrong{R"({"faults": [{"kind": "port_down", "device": "softhca0", "port": 2}]})",
              R"("faults[0].port")"},
        Wrong{
            R"({"faults": [{"kind": "qp_error", "device": "softhca0", "at_s": 1, "after_bytes": 1}]})",
            "either this or at_s"},
        Wrong{"{", "not valid JSON"}, Wrong{"/missing/x.json", "cannot read /missing/x.json"}),
    [](const auto& wrong) { return "Case" + std::to_string(wrong.index); });

}  // namespace
}  // namespace softhca
