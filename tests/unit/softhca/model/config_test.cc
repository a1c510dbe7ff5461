#include "softhca/model/config.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
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
  EXPECT_EQ(config->devices[0].port(1).lid, 1);
  EXPECT_EQ(config->devices[1].port(1).lid, 2);
  EXPECT_NE(config->devices[0].guid, config->devices[1].guid);
  EXPECT_EQ(config->devices[0].port(1).gbps(), 400);
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
  EXPECT_EQ(device.port(1).lid, 7);
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

TEST(Config, FabricOfTheEnvironment_IsThatOfAConfigurationWithout) {
  EXPECT_EQ(Config::load(nullptr)->fabric, "default");
  EXPECT_EQ(Config::load(nullptr, "")->fabric, "default");
  EXPECT_EQ(Config::load(nullptr, "build-1")->fabric, "build-1");
  EXPECT_EQ(Config::load(R"({"fabric": "mine"})", "build-1")->fabric, "mine");
  gdr::Result<Config> wrong = Config::load(nullptr, "../x");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().text,
            "SOFTHCA_FABRIC: accepted is a name of at most 40 letters, digits, _ . -");
}

TEST(Config, File_IsRead) {
  std::string path = testing::TempDir() + "softhca.json";
  std::ofstream(path) << R"(/* comments are fine */ {"devices": [{"name": "from_file"}]})";
  gdr::Result<Config> config = Config::load(path.c_str());
  std::remove(path.c_str());
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->devices[0].name, "from_file");
}

TEST(Config, LidsNotGiven_DoNotCollideWithGivenOnes) {
  gdr::Result<Config> config =
      Config::load(R"({"devices": [{}, {"lid": 1, "ports": 2}, {"ports": 2}, {}]})");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->devices[0].port(1).lid, 3);
  EXPECT_EQ(config->devices[2].port(1).lid, 4);
  EXPECT_EQ(config->devices[3].port(1).lid, 6);
}

TEST(Config, PortSettings_DifferByPortAndInheritTheDevice) {
  gdr::Result<Config> config = Config::load(R"({"devices": [
      {"ports": 3, "lid": 20, "mtu": 1024, "gids": ["fd00::1"], "grh_required": true,
       "port_settings": [{}, {"link_layer": "Ethernet", "gids": ["::ffff:10.0.0.7"],
                             "grh_required": false, "max_msg_sz": 4096}]}]})");
  ASSERT_TRUE(config) << config.error().text;
  const DeviceConfig& device = config->devices[0];
  EXPECT_EQ(device.port(1).lid, 20);
  EXPECT_EQ(device.port(2).lid, 0);
  EXPECT_EQ(device.port(3).lid, 22);
  EXPECT_EQ(device.port(2).mtu, 1024u);
  EXPECT_EQ(device.port(2).max_msg_sz, 4096u);
  EXPECT_EQ(device.port(3).max_msg_sz, 1u << 30);
  EXPECT_EQ(device.port(2).grh, GrhRule::kOptional);
  EXPECT_EQ(device.port(3).grh, GrhRule::kRequired);
  EXPECT_EQ(device.gid_table(3)[1].gid.raw[15], 3);
  EXPECT_EQ(device.gid_table(2)[3].gid.raw[15], 7);
  EXPECT_EQ(device.gid_table(2)[3].type, IBV_GID_TYPE_ROCE_V2);
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
        Wrong{R"({"fabrik": "x"})",
              R"(unknown field "fabrik"; known here are: counters_file, devices, fabric)"},
        Wrong{R"({"devices": [{}, {"nmae": "x"}]})", R"(unknown field "devices[1].nmae")"},
        Wrong{R"({"devices": [{"ports": 5}]})",
              R"("devices[0].ports": accepted is an integer from 1 to 4)"},
        Wrong{R"({"devices": [{"ports": "1"}]})", R"("devices[0].ports")"},
        Wrong{R"({"devices": [{"ports": -1}]})", R"("devices[0].ports")"},
        Wrong{R"({"devices": [{"link_layer": "ethernet"}]})",
              R"("InfiniBand", "Ethernet" or "unspecified")"},
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
        Wrong{
            R"({"faults": [{"kind": "gid_change", "device": "softhca0"}]})",
            R"("faults[0].gid_index": accepted is an index of the table, from 0 to 15; it is required)"},
        Wrong{R"({"faults": [{"kind": "lid_change", "device": "softhca0"}]})",
              R"("faults[0].lid": accepted is a LID; it is required)"},
        Wrong{R"({"faults": [{"kind": "modify_qp_refused", "device": "softhca0", "to": "ERR"}]})",
              R"("faults[0].to": accepted is "INIT", "RTR" or "RTS")"},
        Wrong{
            R"({"faults": [{"kind": "port_down", "device": "softhca0", "late_us": 5}]})",
            R"(unknown field "faults[0].late_us"; known here are: after_bytes, after_ops, at_request, at_s)"},
        Wrong{R"({"faults": [{"kind": "ack_lost", "device": "softhca0", "errno": 5}]})",
              R"(unknown field "faults[0].errno")"},
        Wrong{R"({"faults": [{"kind": "packets_lost", "device": "softhca0", "after_ops": 5}]})",
              R"("faults[0].at_s": accepted is a time; it is required)"},
        Wrong{R"({"faults": [{"kind": "packets_lost", "device": "softhca0", "at_s": 0, )"
              R"("from_bytes": 4097}]})",
              R"("faults[0].from_bytes")"},
        Wrong{R"({"faults": [{"kind": "rate", "device": "softhca0", "count": 5}]})",
              R"(unknown field "faults[0].count")"},
        Wrong{R"({"faults": [{"kind": "reg_mr_refused", "device": "softhca0", "to": "RTR"}]})",
              R"(unknown field "faults[0].to")"},
        Wrong{
            R"({"faults": [{"kind": "lid_change", "device": "softhca0", "lid": 5, "gid": "::1"}]})",
            R"(unknown field "faults[0].gid")"},
        Wrong{R"({"faults": [{"kind": "gid_change", "device": "softhca0", "gid_index": 16}]})",
              R"("faults[0].gid_index": accepted is an integer from 0 to 15)"},
        Wrong{R"({"faults": [{"kind": "gid_change", "device": "softhca0", "gid_index": 1, )"
              R"("gid": "10.0.0.1"}]})",
              R"("faults[0].gid": accepted is an IPv6 address)"},
        Wrong{R"({"faults": [{"kind": "gid_change", "device": "softhca0", "gid_index": 1, )"
              R"("gid": "::1", "gid_type": "RoCE v2"}]})",
              R"("faults[0].gid_type": accepted is "IB" on InfiniBand)"},
        Wrong{R"({"devices": [{"name": "a", "link_layer": "Ethernet"}], )"
              R"("faults": [{"kind": "lid_change", "device": "a", "lid": 5}]})",
              R"("faults[0].kind": accepted is lid_change only on InfiniBand)"},
        Wrong{R"({"faults": [{"kind": "rate", "device": "softhca0", "share": 0.1}]})",
              R"("faults[0].share": accepted is a share only of a device that has a rate_gbps)"},
        Wrong{R"({"faults": [{"kind": "rate", "device": "softhca0", "share": 1, "rate_gbps": 1}]})",
              R"("faults[0].share": accepted is either this or rate_gbps)"},
        Wrong{R"({"faults": [{"kind": "port_flap", "device": "softhca0", "down_ms": 0}]})",
              R"("faults[0].down_ms": accepted is a number from 0.1 to 1e+06)"},
        Wrong{R"({"faults": [{"kind": "port_down", "device": "softhca0", "silent": true}]})",
              R"(unknown field "faults[0].silent")"},
        Wrong{R"({"faults": [{"kind": "completion_error", "device": "softhca0"}]})",
              R"("faults[0].at_request": accepted is the request that fails; it is required)"},
        Wrong{R"({"faults": [{"kind": "completion_error", "device": "softhca0", )"
              R"("status": "REM_OP_ERR", "at_request": {"moment": "received"}}]})",
              R"("faults[0].at_request": accepted is "begun" or "arrived")"},
        Wrong{R"({"faults": [{"kind": "completion_error", "device": "softhca0", )"
              R"("at_request": {"moment": "acknowledged"}}]})",
              R"("faults[0].at_request": accepted is a moment before "acknowledged")"},
        Wrong{R"({"faults": [{"kind": "completion_error", "device": "softhca0", )"
              R"("at_request": {"opcode": "write", "end": "responder"}}]})",
              R"("faults[0].at_request": accepted is requests that consume a receive)"},
        Wrong{R"({"faults": [{"kind": "ack_lost", "device": "softhca0", )"
              R"("at_request": {"end": "responder"}}]})",
              R"("faults[0].at_request": accepted is the end "requester")"},
        Wrong{R"({"faults": [{"kind": "port_up", "device": "softhca0", "at_request": 5}]})",
              R"("faults[0].at_request": accepted is an object)"},
        Wrong{R"({"faults": [{"kind": "port_up", "device": "softhca0", )"
              R"("at_request": {"opcode": "recv"}}]})",
              R"("faults[0].at_request.opcode": accepted is "any", "write")"},
        Wrong{R"({"faults": [{"kind": "port_up", "device": "softhca0", )"
              R"("at_request": {"device": "softhca0", "port": 2}}]})",
              R"("faults[0].at_request": accepted is a device and a port of this configuration)"},
        Wrong{R"({"faults": [{"kind": "port_up", "device": "softhca0", )"
              R"("at_request": {"count": 2}}]})",
              R"(unknown field "faults[0].at_request.count")"},
        Wrong{R"({"faults_file": "faults"})", R"("faults_file": accepted is an absolute path)"},
        Wrong{R"({"counters_file": "c"})", R"("counters_file": accepted is an absolute path)"},
        Wrong{R"({"devices": [{"ack_timeout_factor": 2}]})",
              R"("devices[0].ack_timeout_factor": accepted is a number from 1e-06 to 1)"},
        Wrong{R"({"devices": [{"transport": "RoCE"}]})", R"("InfiniBand", "iWARP" or)"},
        Wrong{R"({"devices": [{"link_speed": "1000"}]})", "XDR or a code from 0 to 65535"},
        Wrong{R"({"devices": [{"link_width": 256}]})", R"("12x" or a code from 0 to 255)"},
        Wrong{R"({"devices": [{"vendor_id": "1234567"}]})",
              R"("devices[0].vendor_id": accepted is 1 to 6 hexadecimal digits)"},
        Wrong{R"({"devices": [{"speed_gbps": 3201}]})", "an integer from 0 to 3200"},
        Wrong{R"({"devices": [{"grh_required": "yes"}]})", R"(true, false or "checked")"},
        Wrong{R"({"devices": [{"flid": 5, "link_layer": "Ethernet"}]})", "only on InfiniBand"},
        Wrong{R"({"devices": [{"flid": 5, "subnet_prefix": "fec0000000010001"}]})",
              R"("devices[0].subnet_prefix": accepted is one whose bits 16 to 31 are 0)"},
        Wrong{R"({"devices": [{"subnet_prefix": "fe80::"}]})", "up to 16 hexadecimal digits"},
        Wrong{R"({"devices": [{"max_msg_sz": 0}]})", "an integer from 1 to 2147483648"},
        Wrong{R"({"devices": [{"ece": {"options": "1"}}]})",
              R"("devices[0].ece.vendor_id": accepted is up to 8 hexadecimal digits, not 0)"},
        Wrong{R"({"devices": [{"ece": {"vendor_id": "1", "options": "1", "required": "3"}}]})",
              R"("devices[0].ece.required": accepted is a part of options)"},
        Wrong{R"({"devices": [{"port_settings": [{}, {}]}]})",
              R"("devices[0].port_settings": accepted is at most one object for each port)"},
        Wrong{R"({"devices": [{"port_settings": [{"guid": "1"}]}]})",
              R"(unknown field "devices[0].port_settings[0].guid")"},
        Wrong{"{", "not valid JSON"}, Wrong{"/missing/x.json", "cannot read /missing/x.json"},
        Wrong{"/proc/self", "cannot read /proc/self: Is a directory"}),
    [](const auto& wrong) { return "Case" + std::to_string(wrong.index); });

}  // namespace
}  // namespace softhca
