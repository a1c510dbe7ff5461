#include "tools/topo/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

namespace gdr::tools::topo {
namespace {

using Kind = Layout::Box::Kind;
using Filter = std::function<bool(const Attachment&)>;

constexpr double kInset = 8;        // of what is in a box, on both sides
constexpr double kSpaceBelow = 6;   // below a box or a card
constexpr double kCardWidth = 720;  // of the cards in the most boxes
constexpr double kLaneWidth = 11;

std::string numa_label(const NumaNode& numa) {
  if (numa.id < 0) return "NUMA node unknown";
  return fmt::format("NUMA node {}{}", numa.id,
                     numa.cpus.empty() ? "" : ": CPUs " + cpu_list(numa.cpus));
}

// Puts boxes and cards below each other, from the top of the machine's tree on.
class Layouter {
 public:
  Layouter(const RailDecision& decision, double x, double y)
      : decision_(decision), machine_(decision.machine), x_(x), y_(y) {
    layout_.gpus.resize(machine_.gpus.size());
    layout_.hcas.resize(machine_.hcas.size());
  }

  Layout run() {
    for (size_t i = 0; i < machine_.packages.size(); ++i) {
      add_box(Kind::kPackage, fmt::format("package {}", machine_.packages[i].id),
              [&] { add_numa_nodes(static_cast<int>(i)); });
    }
    add_numa_nodes(-1);
    add_devices_of_numa(-1);
    widen();
    add_lines();
    layout_.bottom = y_;
    return std::move(layout_);
  }

 private:
  Rect next_rect(double height) const {
    const double indent = kInset * depth_;
    return Rect{x_ + indent, y_, kCardWidth - 2 * indent, height};
  }

  void add_box(Kind kind, const std::string& label, const std::function<void()>& add_contents) {
    const size_t box = layout_.boxes.size();
    layout_.boxes.push_back({kind, label, next_rect(0)});
    y_ += kRowHeight;
    deepest_ = std::max(deepest_, ++depth_);
    add_contents();
    --depth_;
    layout_.boxes[box].rect.height = y_ - layout_.boxes[box].rect.y;
    y_ += kSpaceBelow;
  }

  void add_numa_nodes(int package) {
    for (size_t i = 0; i < machine_.numa_nodes.size(); ++i) {
      const NumaNode& numa = machine_.numa_nodes[i];
      if (numa.package != package) continue;
      add_box(Kind::kNumaNode, numa_label(numa), [&] { add_devices_of_numa(static_cast<int>(i)); });
    }
  }

  // Adds everything on a NUMA node (-1: everything that is on none).
  void add_devices_of_numa(int numa) {
    std::set<int> bridges;  // -1 for devices whose host bridge is unknown
    const auto add_bridge_of = [&](const Attachment& at) {
      if (at.parent < 0 && at.numa == numa) bridges.insert(at.host_bridge);
    };
    for (const Switch& one : machine_.switches) add_bridge_of(one.at);
    for (const Gpu& gpu : machine_.gpus) add_bridge_of(gpu.at);
    for (const Hca& hca : machine_.hcas) add_bridge_of(hca.at);
    for (int bridge : bridges) {
      const auto add = [&] {
        add_devices([=](const Attachment& at) {
          return at.parent < 0 && at.numa == numa && at.host_bridge == bridge;
        });
      };
      if (bridge < 0) {
        add();
      } else {
        add_box(Kind::kHostBridge, "host bridge " + host_bridge_text(machine_, bridge), add);
      }
    }
  }

  // Adds the GPUs, HCAs and switches whose attachment the filter accepts.
  void add_devices(const Filter& is_here) {
    for (size_t gpu = 0; gpu < machine_.gpus.size(); ++gpu) {
      if (!is_here(machine_.gpus[gpu].at)) continue;
      add_gpu(gpu);
      for (const Rail* rail : decision_.plan.rails_of(gpu)) {
        if (is_here(hca_of(machine_, rail->port).at)) add_hca(static_cast<size_t>(rail->port.hca));
      }
    }
    for (size_t hca = 0; hca < machine_.hcas.size(); ++hca) {
      if (is_here(machine_.hcas[hca].at)) add_hca(hca);
    }
    for (size_t i = 0; i < machine_.switches.size(); ++i) {
      if (!is_here(machine_.switches[i].at)) continue;
      add_box(Kind::kSwitch, "switch " + machine_.switches[i].bdf.to_string(), [&] {
        add_devices([i](const Attachment& at) { return at.parent == static_cast<int>(i); });
      });
    }
  }

  Rect add_card(size_t strips) {
    const Rect card = next_rect(kRowHeight * static_cast<double>(1 + strips) + 1);
    y_ += card.height + kSpaceBelow;
    return card;
  }

  void add_gpu(size_t gpu) { layout_.gpus[gpu] = add_card(decision_.plan.gpus[gpu].rails.size()); }

  // Adds the HCA unless it lies below a GPU already.
  void add_hca(size_t hca) {
    if (layout_.hcas[hca].height > 0) return;
    layout_.hcas[hca] = add_card(machine_.hcas[hca].ports.size());
  }

  // Gives the cards in the most boxes their width, and all others that much more.
  void widen() {
    const double more = 2 * kInset * deepest_;
    for (Layout::Box& box : layout_.boxes) box.rect.width += more;
    for (Rect& card : layout_.gpus) card.width += more;
    for (Rect& card : layout_.hcas) card.width += more;
    layout_.width = kCardWidth + more;
  }

  void add_lines() {
    std::vector<size_t> strips(machine_.gpus.size());  // of each GPU that have a line
    for (const RailPair& pair : rail_pairs(decision_)) {
      const PortRef port = decision_.plan.rails[pair.rail].port;
      layout_.lines.push_back(
          {pair, strip_of(layout_.gpus[pair.gpu], strips[pair.gpu]++),
           strip_of(layout_.hcas[static_cast<size_t>(port.hca)], static_cast<size_t>(port.port)),
           0});
    }
    assign_lanes();
  }

  // Gives each line the first lane beside the boxes that is free along it, short lines first.
  void assign_lanes() {
    std::vector<Layout::Line*> lines;
    for (Layout::Line& line : layout_.lines) lines.push_back(&line);
    const auto span = [](const Layout::Line* line) { return std::abs(line->tag.y - line->port.y); };
    std::stable_sort(lines.begin(), lines.end(),
                     [&](const auto* a, const auto* b) { return span(a) < span(b); });
    const double right = x_ + layout_.width;
    for (size_t i = 0; i < lines.size(); ++i) {
      Layout::Line& line = *lines[i];
      const auto [top, bottom] = std::minmax(line.tag.y, line.port.y);
      const auto is_taken = [&, top = top, bottom = bottom](const Layout::Line* other) {
        const auto [other_top, other_bottom] = std::minmax(other->tag.y, other->port.y);
        return other->lane_x == line.lane_x && other_top <= bottom && top <= other_bottom;
      };
      const auto placed = lines.begin() + static_cast<ptrdiff_t>(i);
      line.lane_x = right + kLaneWidth;
      while (std::any_of(lines.begin(), placed, is_taken)) line.lane_x += kLaneWidth;
      layout_.width = std::max(layout_.width, line.lane_x + kLaneWidth - x_);
    }
  }

  const RailDecision& decision_;
  const Machine& machine_;
  const double x_;
  double y_;
  int depth_ = 0, deepest_ = 0;  // in boxes
  Layout layout_;
};

}  // namespace

Layout lay_out(const RailDecision& decision, double x, double y) {
  return Layouter(decision, x, y).run();
}

Rect strip_of(const Rect& card, size_t row) {
  return Rect{card.x + kNameWidth, card.y + kRowHeight * static_cast<double>(1 + row),
              card.width - kNameWidth - 3, kRowHeight - 2};
}

}  // namespace gdr::tools::topo
