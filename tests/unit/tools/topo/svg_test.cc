#include <gmock/gmock.h>

#include <pugixml.hpp>
#include <random>
#include <set>

#include "tests/unit/topology/machines.h"
#include "tests/unit/topology/random_tree.h"
#include "tools/topo/layout.h"
#include "tools/topo/render.h"

namespace gdr::tools::topo {
namespace {

using ::testing::HasSubstr;
using topology::flat;
using topology::lopsided;
using topology::scene_of;
using topology::two_sockets_with_switches;
using topology::with_nvlink;

pugi::xml_document parsed_svg(const RailDecision& scene) {
  pugi::xml_document document;
  pugi::xml_parse_result result = document.load_string(svg_text(scene).c_str());
  EXPECT_TRUE(result) << result.description();
  return document;
}

// The group of a card by its id.
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
  return document.select_nodes("/svg/g[@id='lines']/path[@stroke-dasharray]").size();
}

TEST(Svg, AnyMachine_NamesEveryDevice) {
  for (const Machine& machine : {two_sockets_with_switches(), flat(16, 16, 2), lopsided()}) {
    RailDecision scene = scene_of(machine);
    pugi::xml_document document = parsed_svg(scene);
    for (size_t i = 0; i < scene.machine.gpus.size(); ++i) {
      EXPECT_EQ(title_of(group(document, "gpu" + std::to_string(i))), "GPU" + std::to_string(i));
    }
    for (size_t i = 0; i < scene.machine.hcas.size(); ++i) {
      EXPECT_EQ(title_of(group(document, "hca" + std::to_string(i))), scene.machine.hcas[i].name);
    }
  }
}

TEST(Svg, Rail_GpuAndHcaShareItsColourAndOthersDoNot) {
  pugi::xml_document document = parsed_svg(scene_of(two_sockets_with_switches()));
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
  pugi::xml_document document = parsed_svg(scene_of(two_sockets_with_switches()));
  EXPECT_TRUE(group(document, "hca4").select_node("text[starts-with(., 'DOWN port 2')]"));
  EXPECT_FALSE(group(document, "hca4").select_node("text[starts-with(., 'DOWN port 1')]"));
}

TEST(Svg, GpudirectNotAllowed_LinesAreDashed) {
  EXPECT_EQ(dashed_lines(parsed_svg(scene_of(two_sockets_with_switches()))), 0u);
  topology::nccl::Settings never;
  never.gdr_level = PathClass::kLoc;
  RailDecision scene = scene_of(two_sockets_with_switches(), never);
  EXPECT_EQ(dashed_lines(parsed_svg(scene)), 2 * scene.machine.gpus.size());  // with their edges
}

// A tree of up to 16 GPUs and 16 HCAs with names, models and links of all kinds.
Machine random_picture(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](unsigned count) { return static_cast<int>(random() % count); };
  Machine machine = topology::RandomTree(seed).machine();
  machine.source = "random numbers";
  if (below(2) == 0) machine.host = "node17";
  for (Gpu& gpu : machine.gpus) {
    const char* models[] = {"", "NVIDIA H100", "NVIDIA A100 with a name that is too long to fit"};
    gpu.model = models[below(3)];
    if (below(2) == 0) gpu.link = PciLink{32, 16};
  }
  for (Hca& hca : machine.hcas) {
    if (below(4) == 0) hca.name = "a_long_name_of_hca_" + hca.name;
  }
  const int kind = below(4);
  machine.gpu_links_known = kind > 0;
  for (Gpu& gpu : machine.gpus) {
    if (kind == 2) gpu.nvlinks.push_back({NvLink::To::kSwitch, {}, below(19)});
    if (kind != 3) continue;
    for (const Gpu& other : machine.gpus) {
      if (&other == &gpu || below(2) == 0) continue;
      gpu.nvlinks.push_back({NvLink::To::kGpu, other.bdf, 1 + below(6)});
    }
  }
  for (int bridge : {0, 1}) {
    machine.host_bridges.push_back(HostBridge{0, static_cast<uint8_t>(bridge)});
  }
  for (Gpu& gpu : machine.gpus) {
    if (gpu.at.parent < 0) gpu.at.host_bridge = below(3) - 1;
  }
  return machine;
}

bool overlap(const Rect& a, const Rect& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

// The space that a text takes at most in a sans-serif font, by the sizes of the style sheet.
Rect space_of(pugi::xml_node text) {
  const std::string style = text.attribute("class").value();
  const bool bold = style == "title" || style == "name";
  const double size = style == "title"                         ? 18
                      : style == "subtitle" || style == "name" ? 13
                      : style == "strip"                       ? 11
                                                               : 12;
  double characters = 0;
  for (char c : std::string(text.last_child().value())) characters += (c & 0xc0) != 0x80 ? 1 : 0;
  const double width = characters * size * (bold ? 0.64 : 0.56);
  const std::string anchor = text.attribute("text-anchor").value();
  double x = text.attribute("x").as_double();
  x -= anchor == "end" ? width : anchor == "middle" ? width / 2 : 0;
  return Rect{x, text.attribute("y").as_double() - 0.75 * size, width, 0.95 * size};
}

void expect_texts_apart(const pugi::xml_document& document) {
  const pugi::xml_node svg = document.child("svg");
  const double width = svg.attribute("width").as_double();
  const double height = svg.attribute("height").as_double();
  std::vector<Rect> spaces;
  std::vector<std::string> texts;
  for (const pugi::xpath_node& one : document.select_nodes("//text")) {
    const Rect space = space_of(one.node());
    texts.push_back(one.node().last_child().value());
    EXPECT_TRUE(space.x >= 0 && space.x + space.width <= width && space.y >= 0 &&
                space.y + space.height <= height)
        << texts.back();
    for (size_t i = 0; i < spaces.size(); ++i) {
      EXPECT_FALSE(overlap(space, spaces[i])) << texts.back() << " and " << texts[i];
    }
    spaces.push_back(space);
  }
}

void expect_words_on_cards(const pugi::xml_document& document) {
  for (const pugi::xpath_node& one : document.select_nodes("//g[starts-with(@id, 'gpu')] | "
                                                           "//g[starts-with(@id, 'hca')]")) {
    pugi::xml_node card = one.node().first_child();
    const double left = card.attribute("x").as_double();
    for (pugi::xml_node text : one.node().children("text")) {
      const Rect space = space_of(text);
      EXPECT_GE(space.x, left) << text.last_child().value();
      EXPECT_LE(space.x + space.width, left + card.attribute("width").as_double())
          << text.last_child().value();
    }
  }
}

TEST(Svg, RandomMachines_TextsLieInThePictureAndApart) {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    pugi::xml_document document = parsed_svg(scene_of(random_picture(seed)));
    expect_texts_apart(document);
    expect_words_on_cards(document);
  }
}

TEST(Svg, LargeMachines_TextsLieInThePictureAndApart) {
  expect_texts_apart(parsed_svg(scene_of(flat(16, 32))));
  expect_texts_apart(parsed_svg(scene_of(flat(72, 72))));
}

std::string texts_of(const pugi::xml_node& node) {
  std::string all;
  for (const pugi::xpath_node& one : node.select_nodes(".//text")) {
    all += std::string(one.node().last_child().value()) + "\n";
  }
  return all;
}

TEST(Svg, LinksOfGpus_AreOnTheirCards) {
  EXPECT_THAT(texts_of(group(parsed_svg(scene_of(with_nvlink())), "gpu0")),
              HasSubstr("NVLink x18"));
}

TEST(Svg, Line_BeginsAtItsPathClass) {
  pugi::xml_document document = parsed_svg(scene_of(two_sockets_with_switches()));
  EXPECT_EQ(document.select_nodes("//text[contains(., ': PIX')]").size(), 8u);
}

TEST(Svg, Lines_LieAboveAllBoxes) {
  pugi::xml_document document = parsed_svg(scene_of(two_sockets_with_switches()));
  EXPECT_STREQ(group(document, "lines").next_sibling().attribute("id").value(), "legend");
}

TEST(Svg, SpecialCharacters_AreEscapedOrReplaced) {
  Machine machine = flat(1, 1);
  machine.source = "a & <b> \"c\"";
  machine.hcas[0].name = "m<&>\"'\x01\xff";
  pugi::xml_document document = parsed_svg(scene_of(machine));
  EXPECT_EQ(title_of(group(document, "hca0")), "m<&>\"'\ufffd\ufffd");
  EXPECT_STREQ(document.select_node("/svg/title").node().text().get(), "a & <b> \"c\"");
}

TEST(Svg, LongName_IsCutAndIsWholeInTheTooltip) {
  Machine machine = flat(1, 1);
  machine.hcas[0].name = "a_very_long_name_of_an_hca";
  pugi::xml_document document = parsed_svg(scene_of(machine));
  pugi::xml_node title = group(document, "hca0").select_node("text/title").node();
  EXPECT_STREQ(title.text().get(), "a_very_long_name_of_an_hca");
}

}  // namespace
}  // namespace gdr::tools::topo
