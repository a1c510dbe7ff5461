// The output of `topo --json` has the form that docs/topo.schema.json describes.
#include "tests/unit/tools/json_schema.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/topology/machines.h"
#include "tools/topo/file_format.h"
#include "tools/topo/render.h"
#include "topology/sources/hwloc.h"
#include "topology/sources/nccl_xml.h"

namespace gdr::tools::topo {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using topology::flat;
using topology::Machine;
using topology::scene_of;
using Json = nlohmann::ordered_json;

const Json& schema() {
  static const Json parsed = [] {
    std::ifstream in(GDR_TOPO_SCHEMA);
    return Json::parse(in);
  }();
  return parsed;
}

Json output_of(Machine machine) { return Json::parse(json_text(scene_of(std::move(machine)))); }

Result<Machine> machine_of(const std::filesystem::path& file) {
  Result<FileFormat> format = file_format_of(file.string());
  if (!format) return forward_error(format);
  return *format == FileFormat::kHwloc ? topology::hwloc_xml(file.string())
                                       : topology::nccl_xml(file.string());
}

TEST(JsonSchema, CommittedMachines_HaveItsForm) {
  size_t machines = 0;
  for (const auto& entry : std::filesystem::directory_iterator(GDR_TOPOLOGIES)) {
    if (entry.path().extension() != ".xml") continue;
    Result<Machine> machine = machine_of(entry.path());
    ASSERT_TRUE(machine) << machine.error().text;
    EXPECT_THAT(violations(schema(), output_of(std::move(*machine))), IsEmpty()) << entry.path();
    ++machines;
  }
  EXPECT_GE(machines, 18u);
}

TEST(JsonSchema, MachineOfUnknownValues_HasItsForm) {
  Machine machine = flat(2, 2, 2);
  machine.numa_nodes[0].id = -1;
  for (topology::Gpu& gpu : machine.gpus) {
    topology::Gpu unknown;
    unknown.bdf = gpu.bdf;
    unknown.at = gpu.at;
    gpu = unknown;
  }
  for (topology::Hca& hca : machine.hcas) {
    topology::Hca unknown;
    unknown.at = hca.at;
    unknown.class_code = 0;
    unknown.ports = {topology::Port{}};
    hca = unknown;
  }
  EXPECT_THAT(violations(schema(), output_of(machine)), IsEmpty());
  EXPECT_THAT(violations(schema(), output_of(Machine{})), IsEmpty());
}

TEST(JsonSchema, MachineOfRareValues_HasItsForm) {
  Machine machine = topology::with_nvlink();
  machine.host = "node17";
  machine.hosts = 2;
  machine.numa_nodes[0].distances = {{0, 10}, {1, 21}};
  machine.gpu_links_known = true;
  machine.gpus[0].partition = 1;
  machine.gpus[1].nvlinks = {
      topology::NvLink{topology::NvLink::To::kGpu, machine.gpus[2].bdf, 0},
      topology::NvLink{topology::NvLink::To::kCpu, {}, 2},
  };
  machine.gpus[3].c2c_links = 10;
  machine.gpus[3].c2c_mb_per_s = 44712;
  machine.switches[0].peers = {machine.switches[1].bdf};
  machine.hcas[0].physical_function = topology::bdf_of(0x99);
  topology::RailDecision scene = scene_of(machine);
  scene.findings = {{Severity::kWarning, "GPU0", "text", "fix"},
                    {Severity::kError, "", "text", ""}};
  EXPECT_THAT(violations(schema(), Json::parse(json_text(scene, {"efa_0:1 is an EFA"}))),
              IsEmpty());
}

TEST(JsonSchema, Settings_HaveItsForm) {
  topology::nccl::Settings settings;
  settings.gdr_level = topology::PathClass::kPix;
  settings.gdr_read = 1;
  settings.gdr_c2c = settings.pxn_c2c = true;
  settings.p2p_level = topology::PathClass::kLoc;
  settings.net_devices = {topology::nccl::NetDevicesPolicy::Kind::kMax, 2};
  Json output = Json::parse(json_text(scene_of(topology::with_nvlink(), settings)));
  EXPECT_THAT(violations(schema(), output), IsEmpty());
  EXPECT_EQ(output["nccl"]["settings"]["netdevs_policy"], "MAX:2");
}

TEST(JsonSchema, OutputThatDiffersFromIt_IsFound) {
  const Json good = output_of(flat(2, 2));
  struct Change {
    const char* place;
    Json value;
    const char* violation;
  };
  for (const Change& change : {
           Change{"/schema_version", 0, "/schema_version: is 0"},
           Change{"/gpus/1/vendor", "10de", "/gpus/1/vendor: is not of its pattern"},
           Change{"/gpus/1/model", 7, "/gpus/1/model: is not of its type"},
           Change{"/paths/gpu_hca/class/0/1", "NEAR", "/paths/gpu_hca/class/0/1: is none of"},
           Change{"/nccl/gpus/0/to_devices/1/send/hops", 0, "/send/hops: is too small"},
           Change{"/hcas/0/extra", nullptr, "/hcas/0/extra: the schema does not describe"},
       }) {
    Json bad = good;
    bad[Json::json_pointer(change.place)] = change.value;
    EXPECT_THAT(violations(schema(), bad), Contains(HasSubstr(change.violation)));
  }
  Json bad = good;
  bad["gpus"][0].erase("rails");
  EXPECT_THAT(violations(schema(), bad), Contains("/gpus/0: lacks the key rails"));
}

}  // namespace
}  // namespace gdr::tools::topo
