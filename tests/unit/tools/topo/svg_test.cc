#include <gmock/gmock.h>

#include <pugixml.hpp>
#include <set>

#include "tests/unit/topology/machines.h"
#include "tools/topo/labels.h"
#include "tools/topo/render.h"

namespace gdr::tools::topo {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using topology::flat;
using topology::lopsided;
using topology::scene_of;
using topology::two_sockets_with_switches;
using topology::with_nvlink;

pugi::xml_document parsed(const RailDecision& scene) {
  pugi::xml_document document;
  pugi::xml_parse_result result = document.load_string(svg_text(scene).c_str());
  EXPECT_TRUE(result) << result.description();
  return document;
}

// The group of a device by its id.
pugi::xml_node group(const pugi::xml_document& document, const std::string& id) {
  return document.select_node(("//g[@id='" + id + "']").c_str()).node();
}

std::string title_of(const pugi::xml_node& card) {
  return card.select_node("text").node().text().get();
}

// The header is a card's second box.
std::string header_fill(const pugi::xml_node& card) {
  return card.select_node("rect[2]").node().attribute("fill").value();
}

size_t dashed_lines(const pugi::xml_document& document) {
  return document.select_nodes("/svg/g[not(@id)]/path[@stroke-dasharray]").size();
}

TEST(Svg, AnyMachine_NamesEveryDevice) {
  for (const Machine& machine : {two_sockets_with_switches(), flat(16, 16, 2), lopsided()}) {
    RailDecision scene = scene_of(machine);
    pugi::xml_document document = parsed(scene);
    for (size_t i = 0; i < scene.machine.gpus.size(); ++i) {
      EXPECT_EQ(title_of(group(document, "gpu" + std::to_string(i))), "GPU" + std::to_string(i));
    }
    for (size_t i = 0; i < scene.machine.hcas.size(); ++i) {
      EXPECT_EQ(title_of(group(document, "hca" + std::to_string(i))), scene.machine.hcas[i].name);
    }
  }
}

TEST(Svg, Rail_GpuAndHcaShareItsColourAndOthersDoNot) {
  pugi::xml_document document = parsed(scene_of(two_sockets_with_switches()));
  std::set<std::string> colours;
  for (int rail = 0; rail < 4; ++rail) {
    std::string colour = header_fill(group(document, "hca" + std::to_string(rail)));
    EXPECT_EQ(header_fill(group(document, "gpu" + std::to_string(2 * rail))), colour);
    EXPECT_EQ(header_fill(group(document, "gpu" + std::to_string(2 * rail + 1))), colour);
    colours.insert(colour);
  }
  EXPECT_EQ(colours.size(), 4u);
  EXPECT_EQ(header_fill(group(document, "hca4")), kGrey);
}

TEST(Svg, PortThatIsDown_IsMarked) {
  pugi::xml_document document = parsed(scene_of(two_sockets_with_switches()));
  EXPECT_TRUE(group(document, "hca4").select_node("text[starts-with(., 'DOWN 2')]"));
  EXPECT_FALSE(group(document, "hca4").select_node("text[starts-with(., 'DOWN 1')]"));
}

TEST(Svg, GpudirectNotAllowed_LinesAreDashed) {
  EXPECT_EQ(dashed_lines(parsed(scene_of(two_sockets_with_switches()))), 0u);
  topology::nccl::Settings never;
  never.gdr_level = PathClass::kLoc;
  RailDecision scene = scene_of(two_sockets_with_switches(), never);
  EXPECT_EQ(dashed_lines(parsed(scene)), 2 * scene.machine.gpus.size());  // with their edges
}

TEST(Svg, SpecialCharacters_AreEscaped) {
  Machine machine = flat(1, 1);
  machine.source = "a & <b> \"c\"";
  machine.hcas[0].name = "m<&>\"'";
  pugi::xml_document document = parsed(scene_of(machine));
  EXPECT_EQ(title_of(group(document, "hca0")), "m<&>\"'");
  EXPECT_STREQ(document.select_node("/svg/title").node().text().get(), "a & <b> \"c\"");
}

TEST(Svg, NameThatIsNotUtf8_IsCleaned) {
  Machine machine = flat(1, 1);
  machine.hcas[0].name = "a\x01\xff";
  std::string text = svg_text(scene_of(machine));
  EXPECT_THAT(text, Not(HasSubstr("&#")));
  EXPECT_THAT(text, HasSubstr("a\ufffd\ufffd"));
}

TEST(Svg, LongName_IsCutAndIsWholeInTheTooltip) {
  Machine machine = flat(1, 1);
  machine.hcas[0].name = "a_very_long_name_of_an_hca";
  pugi::xml_document document = parsed(scene_of(machine));
  pugi::xml_node title = group(document, "hca0").select_node("text/title").node();
  EXPECT_STREQ(title.text().get(), "a_very_long_name_of_an_hca");
}

TEST(Svg, SameMachine_IsTheSamePicture) {
  EXPECT_EQ(svg_text(scene_of(with_nvlink())), svg_text(scene_of(with_nvlink())));
}

TEST(Svg, EmptyMachine_IsAPicture) { EXPECT_TRUE(parsed(scene_of(Machine{})).child("svg")); }

}  // namespace
}  // namespace gdr::tools::topo
