#include <fmt/format.h>

#include "tools/topo/labels.h"
#include "tools/topo/layout.h"
#include "tools/topo/links.h"
#include "tools/topo/picture_header.h"
#include "tools/topo/render.h"

namespace gdr::tools::topo {
namespace {

// Quotes a string of the DOT language, in which a line end is written \n.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  size_t begin = 0;
  for (size_t end = text.find('\n'); begin <= text.size(); end = text.find('\n', begin)) {
    for (char c : clean_text(text.substr(begin, end - begin))) {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    if (end == std::string::npos) break;
    out += "\\n";
    begin = end + 1;
  }
  return out + "\"";
}

std::string device_line(const std::string& id, const std::string& label,
                        const std::string& colour) {
  const char* look = colour == kGrey ? "filled,dashed" : "filled";
  return fmt::format("{} [label={}, style=\"{}\", fillcolor=\"{}\", fontcolor=\"{}\"];\n", id,
                     quoted(label), look, colour, text_colour_on(colour));
}

std::string gpu_line(const RailDecision& decision, int gpu) {
  std::string label = fmt::format("GPU{}\n{}\n{}", gpu, decision.machine.gpus[gpu].bdf.to_string(),
                                  gpu_rails_text(decision.plan, gpu));
  return device_line(fmt::format("gpu{}", gpu), label, gpu_colour(decision.plan, gpu));
}

std::string hca_line(const RailDecision& decision, int index) {
  const Hca& hca = decision.machine.hcas[index];
  std::string label = hca.name + "\n" + address_text(hca);
  for (size_t i = 0; i < hca.ports.size(); ++i) {
    int rail = rail_of(decision.plan, PortRef{index, static_cast<int>(i)});
    std::string words =
        rail < 0 ? "excluded" : fmt::format("rail {}", decision.plan.rails[rail].id);
    bool down = hca.ports[i].state == Port::State::kDown;
    label += fmt::format("\nport {}: {}, {}{}", hca.ports[i].number,
                         speed_text(hca.ports[i].speed_mbps), words, down ? ", DOWN" : "");
  }
  return device_line(fmt::format("hca{}", index), label, hca_colour(decision, index));
}

// Returns a box with what is in it. Graphviz draws no empty cluster, so an empty box gets an
// invisible point. `number` counts the boxes, to make their names unique.
std::string cluster(const RailDecision& decision, const TreeNode& node, int depth, int* number) {
  std::string indent(static_cast<size_t>(depth) * 2, ' ');
  int own = (*number)++;
  std::string text = fmt::format("{}subgraph cluster_{} {{\n", indent, own);
  text += fmt::format("{}  label={};\n", indent, quoted(node_label(decision.machine, node)));
  bool empty = node.gpus.empty() && node.hcas.empty() && node.children.empty();
  if (empty) text += fmt::format("{}  empty{} [style=invis, shape=point];\n", indent, own);
  for (const TreeNode& child : node.children) text += cluster(decision, child, depth + 1, number);
  for (int gpu : node.gpus) text += indent + "  " + gpu_line(decision, gpu);
  for (int hca : node.hcas) text += indent + "  " + hca_line(decision, hca);
  return text + indent + "}\n";
}

std::string pair_line(const RailDecision& decision, const RailPair& pair) {
  const Rail& rail = decision.plan.rails[pair.rail];
  return fmt::format("  gpu{} -- hca{} [color=\"{}\", penwidth=2, style={}, label={}];\n", pair.gpu,
                     rail.port.hca, rail_colour(pair.rail), pair.direct ? "solid" : "dashed",
                     quoted(pair_text(decision, pair)));
}

// NVLinks and NVLink-C2C. The lines to CPUs end at nodes of their own.
std::string gpu_link_line(const RailDecision& decision, const GpuLink& link) {
  const std::string count = count_text(link);
  switch (link.to) {
    case GpuLink::To::kGpu:
      return fmt::format("  gpu{} -- gpu{} [color=\"#4d7c0f\", label=\"NV{}\"];\n", link.gpu,
                         link.target, count);
    case GpuLink::To::kSwitch:
      return fmt::format("  gpu{} -- nvswitch [color=\"#4d7c0f\", label=\"NV{}\"];\n", link.gpu,
                         count);
    case GpuLink::To::kCpu:
    case GpuLink::To::kC2c:
      break;
  }
  const bool c2c = link.to == GpuLink::To::kC2c;
  const std::string node =
      link.target < 0 ? "?" : numa_text(decision.machine, Attachment{-1, link.target, -1});
  return fmt::format("  gpu{} -- \"CPUs of NUMA node {}\" [color=\"{}\", label=\"{}{}\"];\n",
                     link.gpu, node, c2c ? "#7c3aed" : "#4d7c0f", c2c ? "C2C " : "NV", count);
}

std::string gpu_link_lines(const RailDecision& decision) {
  std::string text;
  bool has_switch = false;
  for (const GpuLink& link : gpu_links(decision.machine)) {
    if (link.to == GpuLink::To::kSwitch && !has_switch) {
      text += "  nvswitch [label=\"NVSwitch\", style=filled, fillcolor=\"#ecfccb\"];\n";
      has_switch = true;
    }
    text += gpu_link_line(decision, link);
  }
  return text;
}

std::string graph_label(const RailDecision& decision, const std::string& date) {
  std::string text;
  for (const std::string& line : header_lines(decision, date)) {
    text += (text.empty() ? "" : "\n") + clean_text(line);
  }
  return text;
}

}  // namespace

std::string dot_text(const RailDecision& decision, const std::string& date) {
  TreeNode root = machine_tree(decision.machine);
  std::string text = fmt::format(
      "graph rails {{\n  label={};\n  labelloc=t;\n"
      "  node [shape=box, fontname=\"sans-serif\"];\n  graph [fontname=\"sans-serif\"];\n  edge "
      "[fontname=\"sans-serif\"];\n",
      quoted(graph_label(decision, date)));
  int number = 0;
  for (const TreeNode& child : root.children) text += cluster(decision, child, 1, &number);
  for (int gpu : root.gpus) text += "  " + gpu_line(decision, gpu);
  for (int hca : root.hcas) text += "  " + hca_line(decision, hca);
  for (const RailPair& pair : rail_pairs(decision)) text += pair_line(decision, pair);
  return text + gpu_link_lines(decision) + "}\n";
}

}  // namespace gdr::tools::topo
