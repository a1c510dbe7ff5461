#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tools/topo/links.h"
#include "tools/topo/svg_canvas.h"

namespace gdr::tools::topo {
namespace {

using To = GpuLink::To;

constexpr double kChipWidth = 52;
constexpr double kChipHeight = 20;
constexpr double kStep = 64;         // from one chip to the next
constexpr double kStub = 24;         // length of a line to a switch or a CPU
constexpr double kEndsWidth = 42;    // of a chip, for the ends of brackets
constexpr double kLaneHeight = 14;   // from one bracket to the next
constexpr double kSwitchWidth = 92;  // of the box of the NVSwitches
constexpr double kRowGap = 14;
constexpr char kNvlinkColour[] = "#4d7c0f";
constexpr char kC2cColour[] = "#7c3aed";

bool has(const std::vector<GpuLink>& links, To to) {
  return std::any_of(links.begin(), links.end(), [to](const GpuLink& one) { return one.to == to; });
}

class LinksPanel {
 public:
  explicit LinksPanel(const RailDecision& decision)
      : decision_(decision),
        links_(gpu_links(decision.machine)),
        has_switch_(has(links_, To::kSwitch)),
        has_peers_(has(links_, To::kGpu)),
        has_cpu_(has(links_, To::kCpu) || has(links_, To::kC2c)),
        order_(decision.machine.gpus.size()) {
    std::iota(order_.begin(), order_.end(), 0);
    if (!has_cpu_) return;
    std::stable_sort(order_.begin(), order_.end(), [&](int a, int b) {
      return decision_.machine.gpus[a].at.numa < decision_.machine.gpus[b].at.numa;
    });
  }

  bool empty() const { return links_.empty(); }

  double width() const {
    const double chips = has_peers_ ? static_cast<double>(order_.size()) : 1;
    return left() + chips * kStep + kMargin;
  }

  // Draws from y down and returns the y of the end.
  double draw(pugi::xml_node parent, double width, double y) {
    parent_ = parent;
    const auto fitting = static_cast<size_t>(std::max(1.0, (width - left() - kMargin) / kStep));
    const size_t per_row = has_peers_ ? order_.size() : fitting;
    const double top = y + (has_cpu_ ? kChipHeight + kStub : 0);
    double bus = top;
    for (size_t first = 0; first < order_.size(); first += per_row) {
      bus = y = draw_row(first, std::min(order_.size(), first + per_row), y);
      y += kRowGap;
    }
    if (has_switch_) draw_switch(top, bus);
    if (has_peers_) y = draw_brackets(bus);
    return y;
  }

 private:
  double left() const { return kMargin + (has_switch_ ? kSwitchWidth + kStub : 0); }
  double chip_x(size_t column) const { return left() + static_cast<double>(column) * kStep; }
  double centre_x(size_t column) const { return chip_x(column) + kChipWidth / 2; }

  const GpuLink* link_of(int gpu, To to) const {
    for (const GpuLink& one : links_) {
      if (one.gpu == gpu && one.to == to) return &one;
    }
    return nullptr;
  }

  const GpuLink* cpu_link_of(int gpu) const {
    const GpuLink* link = link_of(gpu, To::kC2c);
    return link != nullptr ? link : link_of(gpu, To::kCpu);
  }

  // Draws a row with what is above and below it; returns the y of its end.
  double draw_row(size_t first, size_t end, double y) {
    if (has_cpu_) {
      draw_cpus(first, end, y);
      y += kChipHeight + kStub;
    }
    double last_stub = 0;
    for (size_t i = first; i < end; ++i) {
      draw_chip(order_[i], chip_x(i - first), y);
      const GpuLink* link = link_of(order_[i], To::kSwitch);
      if (link == nullptr) continue;
      last_stub = centre_x(i - first);
      draw_stub(*link, last_stub, y + kChipHeight, kNvlinkColour, count_text(*link));
    }
    if (!has_switch_) return y + kChipHeight;
    y += kChipHeight + kStub;
    if (last_stub > 0) {
      add_path(parent_,
               fmt::format("M {:.1f} {:.1f} H {:.1f}", kMargin + kSwitchWidth, y, last_stub),
               kNvlinkColour, 3);
    }
    return y;
  }

  void draw_chip(int gpu, double x, double y) {
    const std::string colour = gpu_colour(decision_.plan, static_cast<size_t>(gpu));
    set(add_rect(parent_, Rect{x, y, kChipWidth, kChipHeight}, colour), "rx", 4.0);
    pugi::xml_node text = add_text(parent_, x + kChipWidth / 2, y + 14, gpu_label(gpu), "strip", 7);
    set(text, "text-anchor", "middle");
    set(text, "style", fmt::format("fill:{}", text_colour_on(colour)));
  }

  // A line down from (x, y), with words beside it.
  void draw_stub(const GpuLink& link, double x, double y, const char* colour,
                 const std::string& words) {
    const double width = 1.5 + 0.15 * std::min(link.count, 18);
    add_path(parent_, fmt::format("M {:.1f} {:.1f} v {:.1f}", x, y, kStub), colour, width);
    add_text(parent_, x + 5, y + 16, words, "count", 6);
  }

  // Draws a box for each run of GPUs that are linked to the CPUs of one NUMA node.
  void draw_cpus(size_t first, size_t end, double y) {
    for (size_t i = first; i < end;) {
      const GpuLink* link = cpu_link_of(order_[i]);
      size_t next = i + 1;
      if (link != nullptr) {
        while (next < end && cpu_link_of(order_[next]) != nullptr &&
               cpu_link_of(order_[next])->target == link->target) {
          ++next;
        }
        draw_cpu(*link, chip_x(i - first), chip_x(next - 1 - first) + kChipWidth, y);
        for (size_t one = i; one < next; ++one) draw_cpu_stub(order_[one], one - first, y);
      }
      i = next;
    }
  }

  void draw_cpu(const GpuLink& link, double x, double end_x, double y) {
    set(add_rect(parent_, Rect{x, y, end_x - x, kChipHeight}, "#e1e8ef"), "stroke", "#8793a3");
    const std::string number =
        link.target < 0 ? "?" : numa_text(decision_.machine, Attachment{-1, link.target, -1});
    const bool wide = end_x - x > kChipWidth;
    pugi::xml_node text =
        add_text(parent_, (x + end_x) / 2, y + 14, (wide ? "NUMA node " : "node ") + number,
                 "strip", static_cast<size_t>((end_x - x) / 6.4));
    set(text, "text-anchor", "middle");
  }

  void draw_cpu_stub(int gpu, size_t column, double y) {
    const GpuLink& link = *cpu_link_of(gpu);
    const bool c2c = link.to == To::kC2c;
    draw_stub(link, centre_x(column), y + kChipHeight, c2c ? kC2cColour : kNvlinkColour,
              (c2c ? "C2C " : "NV ") + count_text(link));
  }

  void draw_switch(double top, double bottom) {
    set(add_rect(parent_, Rect{kMargin, top, kSwitchWidth, bottom + 6 - top}, "#ecfccb"), "stroke",
        kNvlinkColour);
    pugi::xml_node text = add_text(parent_, kMargin + kSwitchWidth / 2, (top + bottom) / 2 + 7,
                                   "NVSwitch", "name", 10);
    set(text, "text-anchor", "middle");
  }

  // A link between two GPUs, drawn as a bracket below them.
  struct Bracket {
    const GpuLink* link;
    size_t left, right;  // columns of the GPUs
    size_t lane = 0;     // how far down
    double left_x = 0, right_x = 0;
  };

  // Returns the brackets, the shortest first. Two of one lane have no column in common, or only one
  // at their ends.
  std::vector<Bracket> brackets() const {
    std::vector<size_t> column(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) column[static_cast<size_t>(order_[i])] = i;
    std::vector<Bracket> all;
    for (const GpuLink& link : links_) {
      if (link.to != To::kGpu) continue;
      const size_t a = column[static_cast<size_t>(link.gpu)];
      const size_t b = column[static_cast<size_t>(link.target)];
      all.push_back({&link, std::min(a, b), std::max(a, b)});
    }
    std::stable_sort(all.begin(), all.end(), [](const Bracket& a, const Bracket& b) {
      return a.right - a.left < b.right - b.left;
    });
    for (size_t i = 0; i < all.size(); ++i) {
      auto is_taken = [&](size_t lane) {
        return std::any_of(
            all.begin(), all.begin() + static_cast<ptrdiff_t>(i), [&](const Bracket& one) {
              return one.lane == lane && one.left < all[i].right && all[i].left < one.right;
            });
      };
      while (is_taken(all[i].lane)) ++all[i].lane;
    }
    return all;
  }

  // Gives each end of a bracket a place below its GPU: from the left those that go left, the
  // shortest first, then those that go right, the longest first. Brackets of one GPU then do not
  // cross each other there.
  void place_ends(std::vector<Bracket>* brackets) const {
    for (size_t column = 0; column < order_.size(); ++column) {
      std::vector<double*> ends;
      for (Bracket& one : *brackets) {
        if (one.right == column) ends.push_back(&one.right_x);
      }
      for (auto one = brackets->rbegin(); one != brackets->rend(); ++one) {
        if (one->left == column) ends.push_back(&one->left_x);
      }
      const double step = kEndsWidth / static_cast<double>(ends.size() + 1);
      for (size_t i = 0; i < ends.size(); ++i) {
        *ends[i] = centre_x(column) - kEndsWidth / 2 + step * static_cast<double>(i + 1);
      }
    }
  }

  // Draws the links between GPUs below the row, which ends at y, with the number of links in the
  // gap behind the left GPU, where no other line is.
  double draw_brackets(double y) {
    std::vector<Bracket> all = brackets();
    place_ends(&all);
    size_t lanes = 0;
    for (const Bracket& one : all) {
      lanes = std::max(lanes, one.lane + 1);
      const double lane_y = y + kLaneHeight * static_cast<double>(one.lane + 1);
      add_path(parent_,
               fmt::format("M {:.1f} {:.1f} V {:.1f} H {:.1f} V {:.1f}", one.left_x, y, lane_y,
                           one.right_x, y),
               kNvlinkColour, 1 + 0.2 * std::min(one.link->count, 6));
    }
    for (const Bracket& one : all) {
      const double lane_y = y + kLaneHeight * static_cast<double>(one.lane + 1);
      pugi::xml_node text = add_text(parent_, centre_x(one.left) + kStep / 2, lane_y + 4,
                                     count_text(*one.link), "count", 4);
      set(text, "text-anchor", "middle");
    }
    return y + kLaneHeight * static_cast<double>(lanes) + kRowGap;
  }

  const RailDecision& decision_;
  std::vector<GpuLink> links_;
  bool has_switch_, has_peers_, has_cpu_;
  std::vector<int> order_;  // of the GPUs in the rows
  pugi::xml_node parent_;
};

bool any_unknown(const RailDecision& decision) {
  for (size_t gpu = 1; gpu < decision.machine.gpus.size(); ++gpu) {
    if (may_have_unknown_link(decision, 0, gpu)) return true;
  }
  return false;
}

std::string caption(const RailDecision& decision, bool known) {
  const char* name = decision.machine.gpus.empty() ? "NVLink" : link_name(decision.machine.gpus[0]);
  if (!known) return fmt::format("{}: the source does not state whether it connects GPUs", name);
  return fmt::format("{}, with the number of links", name);
}

}  // namespace

double links_width(const RailDecision& decision) {
  LinksPanel panel(decision);
  return panel.empty() ? 0 : panel.width();
}

double draw_links(pugi::xml_node svg, const RailDecision& decision, double width, double y) {
  LinksPanel panel(decision);
  if (panel.empty() && !any_unknown(decision)) return y;
  pugi::xml_node parent = svg.append_child("g");
  set(parent, "id", "links");
  y += kRowHeight;
  add_text(parent, kMargin, y, caption(decision, !panel.empty()), "small", 120);
  return panel.empty() ? y : panel.draw(parent, width, y + 10);
}

}  // namespace gdr::tools::topo
