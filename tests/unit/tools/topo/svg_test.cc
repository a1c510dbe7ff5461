#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <pugixml.hpp>
#include <set>

#include "tests/unit/tools/topo/picture.h"
#include "tools/sources/hwloc_xml.h"
#include "tools/topo/render.h"
#include "topology/sources/nccl_xml.h"

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

// The group of a device's boxes by its id, and that of its words.
pugi::xml_node group(const pugi::xml_document& document, const std::string& id) {
  return document.select_node(("//g[@id='" + id + "']").c_str()).node();
}
pugi::xml_node words(const pugi::xml_document& document, const std::string& id) {
  return group(document, id + "-words");
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
      EXPECT_EQ(title_of(words(document, "gpu" + std::to_string(i))), "GPU" + std::to_string(i));
    }
    for (size_t i = 0; i < scene.machine.hcas.size(); ++i) {
      EXPECT_EQ(title_of(words(document, "hca" + std::to_string(i))), scene.machine.hcas[i].name);
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
  EXPECT_TRUE(words(document, "hca4").select_node("text[starts-with(., 'DOWN 2')]"));
  EXPECT_FALSE(words(document, "hca4").select_node("text[starts-with(., 'DOWN 1')]"));
}

TEST(Svg, GpudirectNotAllowed_LinesAreDashed) {
  EXPECT_EQ(dashed_lines(parsed_svg(scene_of(two_sockets_with_switches()))), 0u);
  topology::nccl::Settings never;
  never.gdr_level = PathClass::kLoc;
  RailDecision scene = scene_of(two_sockets_with_switches(), never);
  EXPECT_EQ(dashed_lines(parsed_svg(scene)), 2 * scene.machine.gpus.size());  // with their edges
}

// The space that a text takes at most in a sans-serif font, by the sizes of the style sheet.
Rect space_of(pugi::xml_node text) {
  const std::string style = text.attribute("class").value();
  const bool bold = style == "title" || style == "name" || style == "count";
  const double size = style == "title"                                          ? 18
                      : style == "subtitle" || style == "name"                  ? 13
                      : style == "line" || style == "strip" || style == "count" ? 11
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
  for (const pugi::xpath_node& one : document.select_nodes("//g[@id='words']/g")) {
    const std::string id = one.node().attribute("id").value();
    pugi::xml_node card = group(document, id.substr(0, id.find('-'))).first_child();
    const double left = card.attribute("x").as_double();
    for (pugi::xml_node text : one.node().children("text")) {
      const Rect space = space_of(text);
      EXPECT_GE(space.x, left) << id;
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

// The three parts of a bracket "M x y V y H x V y".
std::vector<Rect> parts_of(const std::string& bracket) {
  double left = 0, top = 0, lane = 0, right = 0;
  if (std::sscanf(bracket.c_str(), "M %lf %lf V %lf H %lf", &left, &top, &lane, &right) != 4) {
    ADD_FAILURE() << bracket;
  }
  const double half = 1;
  return {Rect{left - half, top, 2 * half, lane - top},
          Rect{right - half, top, 2 * half, lane - top},
          Rect{left, lane - half, right - left, 2 * half}};
}

// Expects each number to lie on one line, its own, and its lines not on top of each other.
void expect_numbers_on_own_links(const pugi::xml_document& document) {
  const pugi::xml_node links = group(document, "links");
  std::vector<std::vector<Rect>> brackets;
  for (pugi::xml_node path : links.children("path")) {
    brackets.push_back(parts_of(path.attribute("d").value()));
  }
  size_t numbers = 0;
  for (const pugi::xpath_node& text : links.select_nodes("text[@class='count']")) {
    ++numbers;
    int crossed = 0;
    for (const std::vector<Rect>& parts : brackets) {
      for (const Rect& part : parts) crossed += overlap(space_of(text.node()), part) ? 1 : 0;
    }
    EXPECT_EQ(crossed, 1) << text.node().last_child().value();
  }
  EXPECT_EQ(numbers, brackets.size());
}

TEST(Svg, MeshesOfLinks_HaveNoNumberOnTheLineOfAnother) {
  for (int gpus : {2, 3, 4, 8, 16}) {
    SCOPED_TRACE(gpus);
    Machine machine = flat(gpus, 1);
    machine.gpu_links_known = true;
    for (Gpu& gpu : machine.gpus) {
      for (const Gpu& other : machine.gpus) {
        if (&gpu != &other) gpu.nvlinks.push_back({NvLink::To::kGpu, other.bdf, 12});
      }
    }
    pugi::xml_document document = parsed_svg(scene_of(machine));
    expect_numbers_on_own_links(document);
    expect_texts_apart(document);
  }
}

// A point on a path "M x y C x y x y x y".
Rect point_on(const std::string& path, double t) {
  std::array<double, 8> n{};
  if (std::sscanf(path.c_str(), "M %lf %lf C %lf %lf %lf %lf %lf %lf", &n[0], &n[1], &n[2], &n[3],
                  &n[4], &n[5], &n[6], &n[7]) != 8) {
    ADD_FAILURE() << path;
  }
  const double u = 1 - t;
  auto mix = [&](size_t i) {
    return u * u * u * n[i] + 3 * u * u * t * n[i + 2] + 3 * u * t * t * n[i + 4] +
           t * t * t * n[i + 6];
  };
  return Rect{mix(0) - 1, mix(1) - 1, 2, 2};
}

// Some GPUs of these have their HCA in another box, or behind other GPUs.
TEST(Svg, LinesOfRails_TouchNoWordsBetweenTheirEnds) {
  for (const char* file : {"nccl-cross-wired.xml", "nccl-cascade-4nic.xml", "nccl-dgx-a100.xml",
                           "nccl-dgx-a100-cascade.xml", "hwloc-dgx-h100.xml"}) {
    SCOPED_TRACE(file);
    const std::string path = std::string(GDR_TOPOLOGIES) + "/" + file;
    auto machine = std::string(file).starts_with("nccl") ? topology::nccl_xml(path, {})
                                                         : topology::hwloc_xml(path, {});
    ASSERT_TRUE(machine.has_value()) << machine.error().text;
    pugi::xml_document document = parsed_svg(scene_of(*machine));
    const auto lines = document.select_nodes("//g[@id='lines']/path");
    EXPECT_GE(lines.size(), 8u);
    std::vector<Rect> points;
    for (const pugi::xpath_node& line : lines) {
      for (int i = 3; i <= 97; ++i) {
        points.push_back(point_on(line.node().attribute("d").value(), i / 100.0));
      }
    }
    for (const pugi::xpath_node& text : document.select_nodes("//text")) {
      const Rect space = space_of(text.node());
      EXPECT_TRUE(std::none_of(points.begin(), points.end(), [&](const Rect& point) {
        return overlap(space, point);
      })) << text.node().last_child().value();
    }
  }
}

std::string texts_of(const pugi::xml_node& node) {
  std::string all;
  for (const pugi::xpath_node& one : node.select_nodes(".//text")) {
    all += std::string(one.node().last_child().value()) + "\n";
  }
  return all;
}

TEST(Svg, LinksOfGpus_HaveTheirNumber) {
  Machine unknown = flat(3, 1), none = unknown;
  none.gpu_links_known = true;
  Machine peers = none, c2c = none;
  peers.gpus[0].nvlinks = {NvLink{NvLink::To::kGpu, peers.gpus[2].bdf, 4}};
  c2c.gpus[1].c2c_links = 10;
  struct Case {
    Machine machine;
    std::string text;  // a part of what is in the group "links"
    size_t lines;
  };
  for (const Case& one : {Case{with_nvlink(), "", 0}, Case{peers, "GPU2\n4\n", 1}, Case{c2c, "", 0},
                          Case{unknown, "does not state", 0}, Case{none, "", 0}}) {
    pugi::xml_document document = parsed_svg(scene_of(one.machine));
    const pugi::xml_node links = group(document, "links");
    EXPECT_THAT(texts_of(links), HasSubstr(one.text));
    EXPECT_EQ(links.select_nodes("path").size(), one.lines) << one.text;
    EXPECT_EQ(links.empty(), one.text.empty());
  }
  // Those to switches and CPUs are on the cards.
  EXPECT_THAT(texts_of(words(parsed_svg(scene_of(with_nvlink())), "gpu0")),
              HasSubstr("NVLink x18"));
  EXPECT_THAT(texts_of(words(parsed_svg(scene_of(c2c)), "gpu1")), HasSubstr("C2C x10"));
}

TEST(Svg, Line_BeginsAtClassAndSpeed) {
  pugi::xml_document document = parsed_svg(scene_of(two_sockets_with_switches()));
  EXPECT_EQ(document.select_nodes("//text[.='PIX, 32 GT/s x16']").size(), 8u);
}

TEST(Svg, MachineOnWhichNcclFails_SaysSo) {
  Machine machine = two_sockets_with_switches();
  machine.gpus[0].nvlinks = {NvLink{NvLink::To::kGpu, machine.gpus[4].bdf, 2}};  // and not back
  EXPECT_THAT(texts_of(group(parsed_svg(scene_of(machine)), "legend")),
              HasSubstr(" fails on this machine: "));
}

TEST(Svg, Legend_HasTheReasonsThatNoBoxShows) {
  Machine machine = flat(2, 3);
  machine.hcas[2].ports[0].state = Port::State::kDown;
  const RailDecision scene = scene_of(machine);
  const std::string text = texts_of(group(parsed_svg(scene), "legend"));
  EXPECT_THAT(text, HasSubstr("(GPU0 and mlx5_0:1, GPU1 and mlx5_1:1)\n"));
  EXPECT_THAT(text, HasSubstr("the port is down (mlx5_2:1)\n"));
  const RailDecision excluding = scene_of(two_sockets_with_switches());
  EXPECT_THAT(texts_of(group(parsed_svg(excluding), "legend")),
              HasSubstr("excluded: " + excluding.plan.excluded[0].reason + " (mlx5_4:1"));
}

TEST(Svg, Header_HasTheDate) {
  EXPECT_THAT(svg_text(scene_of(flat(1, 1)), "2026-11-22"), HasSubstr("2026-11-22</text>"));
}

TEST(Svg, Lines_LieAboveAllBoxes) {
  pugi::xml_document document = parsed_svg(scene_of(two_sockets_with_switches()));
  EXPECT_STREQ(group(document, "boxes").next_sibling().attribute("id").value(), "lines");
  EXPECT_EQ(group(document, "words").select_nodes(".//rect").size(), 0u);
}

TEST(Svg, SpecialCharacters_AreEscapedOrReplaced) {
  Machine machine = flat(1, 1);
  machine.source = "a & <b> \"c\"";
  machine.hcas[0].name = "m<&>\"'\x01\xff";
  pugi::xml_document document = parsed_svg(scene_of(machine));
  EXPECT_EQ(title_of(words(document, "hca0")), "m<&>\"'\ufffd\ufffd");
  EXPECT_STREQ(document.select_node("/svg/title").node().text().get(), "a & <b> \"c\"");
}

TEST(Svg, LongName_IsCutAndIsWholeInTheTooltip) {
  Machine machine = flat(1, 1);
  machine.hcas[0].name = "a_very_long_name_of_an_hca";
  pugi::xml_document document = parsed_svg(scene_of(machine));
  pugi::xml_node title = words(document, "hca0").select_node("text/title").node();
  EXPECT_STREQ(title.text().get(), "a_very_long_name_of_an_hca");
}

TEST(Svg, EmptyMachine_IsAPicture) { EXPECT_TRUE(parsed_svg(scene_of(Machine{})).child("svg")); }

}  // namespace
}  // namespace gdr::tools::topo
