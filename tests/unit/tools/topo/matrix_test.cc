#include <gmock/gmock.h>

#include <sstream>
#include <vector>

#include "tests/unit/topology/machines.h"
#include "tools/inspection/labels.h"
#include "tools/topo/render.h"

namespace gdr::tools::topo {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using topology::flat;
using topology::lopsided;
using topology::scene_of;
using topology::two_sockets_with_switches;
using topology::with_nvlink;

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> all;
  for (std::string word; in >> word;) all.push_back(word);
  return all;
}

// The n-th line whose first word this is, as words.
std::vector<std::string> words_of(const std::string& text, const std::string& first, int n = 0) {
  for (const std::string& line : lines_of(text)) {
    const std::vector<std::string> all = words(line);
    if (!all.empty() && all[0] == first && n-- == 0) return all;
  }
  return {};
}

TEST(Matrix, TwoSockets_RowsAreThoseOfNvidiaSmi) {
  Machine machine = two_sockets_with_switches();
  machine.gpu_links_known = true;
  std::string text = matrix_text(scene_of(machine));
  EXPECT_EQ(words(lines_of(text)[0]),
            words("GPU0 GPU1 GPU2 GPU3 GPU4 GPU5 GPU6 GPU7 NIC0 NIC1 NIC2 NIC3 NIC4 "
                  "CPU Affinity NUMA Affinity"));
  EXPECT_EQ(words_of(text, "GPU0", 1),
            words("GPU0 X PIX NODE NODE SYS SYS SYS SYS PIX NODE SYS SYS PHB 0-15,48-63 0"));
  EXPECT_EQ(words_of(text, "NIC2"),
            words("NIC2 SYS SYS SYS SYS PIX PIX NODE NODE SYS SYS X NODE SYS"));
}

TEST(Matrix, AnyMachine_ColumnsLineUpWithoutTabs) {
  std::string text = matrix_text(scene_of(flat(12, 2)));
  std::vector<std::string> lines = lines_of(text);
  size_t column = lines[0].find("NIC1");
  for (int row = 1; row <= 14; ++row) {
    EXPECT_EQ(lines[row][column - 1], ' ') << lines[row];
    EXPECT_NE(lines[row][column], ' ') << lines[row];
  }
  EXPECT_THAT(text, Not(HasSubstr("\t")));
}

TEST(Matrix, NvLinks_AreCountedOrAQuestionMark) {
  std::string text = matrix_text(scene_of(with_nvlink()));
  EXPECT_EQ(words_of(text, "GPU0", 1)[2], "NV18");
  EXPECT_THAT(text, HasSubstr("NV#"));
  Machine machine = flat(2, 1);
  text = matrix_text(scene_of(machine));
  EXPECT_EQ(words_of(text, "GPU0", 1), words("GPU0 X ? PHB N/A 0"));
  EXPECT_THAT(text, HasSubstr("?    = unknown"));
  machine.gpu_links_known = true;
  text = matrix_text(scene_of(machine));
  EXPECT_EQ(words_of(text, "GPU0", 1), words("GPU0 X PHB PHB N/A 0"));
  EXPECT_THAT(text, Not(HasSubstr("= unknown")));
}

TEST(Matrix, Legend_ExplainsWordsInUseOnly) {
  std::string text = matrix_text(scene_of(flat(1, 1)));
  EXPECT_THAT(text, HasSubstr("PHB"));
  EXPECT_THAT(text, Not(HasSubstr("PXB  =")));
  EXPECT_THAT(text, HasSubstr("\nNIC Legend:\n\n  NIC0: mlx5_0\n"));
}

TEST(Matrix, RailsAndExcludedPorts_NameWhatServesWhom) {
  Machine machine = two_sockets_with_switches();
  machine.hcas[0].ports[0].state = Port::State::kDown;
  RailDecision scene = scene_of(machine);
  std::string text = matrix_text(scene), rails = text.substr(text.find("\nRails\n"));
  EXPECT_EQ(words_of(rails, "2"), words("2 mlx5_2:1 0000:54:00.0 1 400 Gb/s active GPU4, GPU5"));
  EXPECT_THAT(rails, HasSubstr("none: the port is down"));
  std::string section = text.substr(text.find("\nExcluded ports\n"));
  ASSERT_EQ(scene.plan.excluded.size(), 2u);
  EXPECT_THAT(section, HasSubstr("mlx5_4:1  " + scene.plan.excluded[0].reason));
  EXPECT_THAT(section, HasSubstr("mlx5_4:2  " + scene.plan.excluded[1].reason));
  EXPECT_THAT(matrix_text(scene_of(flat(1, 1)), {}, "line 3 of nccl.conf"),
              HasSubstr("\nRails, by line 3 of nccl.conf\n"));
}

TEST(Matrix, Gpus_HaveVerdictAndNcclsChoice) {
  topology::nccl::Settings settings;
  settings.gdr_level = PathClass::kPix;
  std::string text = matrix_text(scene_of(lopsided(), settings));
  std::string section = text.substr(text.find("\nGPUs\n"));
  EXPECT_THAT(section, HasSubstr("PXB   mlx5_0:1"));
  EXPECT_THAT(section, HasSubstr("SYS   mlx5_0:1"));
  EXPECT_EQ(words_of(section, "GPU1"), words("GPU1 0000:81:00.0 1 0 SYS mlx5_0:1 no [2] no [2]"));
  EXPECT_THAT(section, HasSubstr("\n  [2] SYS is beyond NCCL_NET_GDR_LEVEL=PIX\n"));
  EXPECT_THAT(section, HasSubstr("NCCL uses\" are those of NCCL " +
                                 topology::nccl::kNewestRelease.to_string() +
                                 ", NCCL_NET_GDR_LEVEL=PIX.\n"));
}

TEST(Matrix, NcclDoesNotFollowTheRails_SaysWhatItUses) {
  topology::RailOptions options;
  EXPECT_THAT(matrix_text(scene_of(two_sockets_with_switches())),
              Not(HasSubstr("does not follow")));
  options.map = topology::RailMap::parse("GPU0=mlx5_3;GPU7=mlx5_0").value();
  std::string text = matrix_text(scene_of(two_sockets_with_switches(), {}, options));
  EXPECT_THAT(text, HasSubstr("\nWhere NCCL does not follow the rails\n"));
  EXPECT_THAT(text, HasSubstr("  GPU0, GPU7: NCCL uses other HCAs than the rails, which are as "
                              "near and as fast\n"));
}

TEST(Matrix, NcclChoosesByBandwidth_SaysSoAndWhetherGpudirectIsLost) {
  Machine machine = two_sockets_with_switches();
  machine.gpu_links_known = true;
  machine.hcas[0].ports[0].speed_mbps = 100000;
  topology::RailOptions options;
  options.map = topology::RailMap::parse("GPU0=mlx5_0;GPU2=mlx5_1").value();
  std::string text = matrix_text(scene_of(machine, {}, options));
  EXPECT_THAT(
      text,
      HasSubstr("GPU0, GPU1: NCCL uses mlx5_1:1 where the rail is mlx5_0:1, as NCCL prefers"));
  EXPECT_THAT(text, HasSubstr("GPUDirect is not possible, and is"));
  EXPECT_THAT(text, HasSubstr("\n`nccl-gdr doctor` states what to do about that.\n"));
}

TEST(Matrix, MachineOnWhichNcclFails_SaysSoInNcclsWords) {
  Machine machine = two_sockets_with_switches();
  machine.gpu_links_known = true;
  EXPECT_THAT(matrix_text(scene_of(machine)), Not(HasSubstr("fails on this machine")));
  machine.gpus[0].nvlinks = {NvLink{NvLink::To::kGpu, machine.gpus[4].bdf, 2}};  // and not back
  RailDecision scene = scene_of(machine);
  ASSERT_NE(scene.prediction.failure(), "");
  EXPECT_THAT(matrix_text(scene),
              HasSubstr("It fails on this machine: " + scene.prediction.failure() + "\n"));
}

TEST(Matrix, SeveralHosts_SaysWhichThisIs) {
  Machine machine = flat(1, 1);
  EXPECT_TRUE(matrix_text(scene_of(machine)).starts_with("      GPU0"));
  machine.host = "0x12";
  machine.hosts = 18;
  EXPECT_TRUE(matrix_text(scene_of(machine))
                  .starts_with("Host 0x12, one of 18 in the source\n\n      GPU0"));
}

TEST(Matrix, SendAndReceiveDiffer_BothReasonsShow) {
  topology::nccl::Settings settings;
  settings.gdr_read = 0;
  std::string text = matrix_text(scene_of(two_sockets_with_switches(), settings));
  EXPECT_THAT(text, HasSubstr("yes [1]  no [2]\n"));
  EXPECT_THAT(text, HasSubstr("\n  [1] PIX is within "));
  EXPECT_THAT(text, HasSubstr("\n  [2] NCCL_NET_GDR_READ=0"));
}

TEST(Matrix, GpuWithoutRail_HasTheReason) {
  std::string text = matrix_text(scene_of(flat(1, 0)));
  EXPECT_THAT(text, HasSubstr("Rails: none"));
  EXPECT_THAT(text, HasSubstr("no [1]   no [1]\n"));
  EXPECT_THAT(text, HasSubstr("\n  [1] the GPU has no rail\n"));
}

TEST(Matrix, PortsThatAreNotOffered_AreListedWithTheReasonAlsoWithoutRails) {
  const std::vector<discovery::SkippedPort> not_offered = {
      {FindingKind::kHcaUnsupported, "efa_0:1", "is an Elastic Fabric Adapter\x1b"},
      {FindingKind::kHcaUnsupported, "iw_0:1", "is an iWARP device"}};
  std::string text = matrix_text(scene_of(flat(1, 0)), not_offered);
  EXPECT_THAT(text, HasSubstr("\nExcluded ports\n  efa_0:1 is an Elastic Fabric Adapter"));
  EXPECT_THAT(text, HasSubstr("\n  iw_0:1 is an iWARP device\n\nGPUs\n"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(Matrix, EmptyMachine_IsASentenceInPlaceOfTables) {
  EXPECT_THAT(matrix_text(scene_of(Machine{}), {}),
              StartsWith("The machine shows neither a GPU nor an HCA."));
  const std::string text =
      matrix_text(scene_of(Machine{}), {{FindingKind::kHcaUnsupported, "efa_0:1", "is an EFA"}});
  EXPECT_THAT(text, Not(AnyOf(HasSubstr("Affinity"), HasSubstr("neither a GPU"))));
  EXPECT_THAT(text, HasSubstr("\n  efa_0:1 is an EFA\n"));
}

TEST(Matrix, NameWithControlCharacters_CannotSteerTheTerminal) {
  Machine machine = flat(1, 1);
  machine.hcas[0].name = "\x1b[31mred\n\xff";
  std::string text = matrix_text(scene_of(machine));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\xff")));
}

}  // namespace
}  // namespace gdr::tools::topo
