#include <fmt/format.h>

#include <algorithm>

#include "tools/topo/links.h"
#include "tools/topo/svg_canvas.h"

namespace gdr::tools::topo {
namespace {

constexpr double kChipWidth = 52;
constexpr double kChipHeight = 20;
constexpr double kStep = 64;        // from one chip to the next
constexpr double kEndsWidth = 42;   // of a chip, for the ends of brackets
constexpr double kLaneHeight = 14;  // from one bracket to the next
constexpr double kRowGap = 14;
constexpr char kNvlinkColour[] = "#4d7c0f";

// The GPUs in a row, and below them the links between two of them. Those to NVSwitches and CPUs are
// in the words on the GPUs' cards.
class LinksPanel {
 public:
  explicit LinksPanel(const RailDecision& decision)
      : decision_(decision), links_(links_between_gpus(decision.machine)) {}

  bool empty() const { return links_.empty(); }

  double width() const { return 2 * kMargin + static_cast<double>(gpus()) * kStep; }

  // Draws from y down and returns the y of the end.
  double draw(pugi::xml_node parent, double y) {
    parent_ = parent;
    for (size_t gpu = 0; gpu < gpus(); ++gpu) draw_chip(gpu, y);
    return draw_brackets(y + kChipHeight);
  }

 private:
  size_t gpus() const { return decision_.machine.gpus.size(); }
  static double chip_x(size_t gpu) { return kMargin + static_cast<double>(gpu) * kStep; }
  static double centre_x(size_t gpu) { return chip_x(gpu) + kChipWidth / 2; }

  void draw_chip(size_t gpu, double y) {
    const std::string colour = gpu_colour(decision_.plan, gpu);
    set(add_rect(parent_, Rect{chip_x(gpu), y, kChipWidth, kChipHeight}, colour), "rx", 4.0);
    pugi::xml_node text = add_text(parent_, centre_x(gpu), y + 14, gpu_label(gpu), "strip", 7);
    set(text, "text-anchor", "middle");
    set(text, "style", fmt::format("fill:{}", text_colour_on(colour)));
  }

  // A link between two GPUs, drawn as a bracket below them.
  struct Bracket {
    const GpuLink* link;
    size_t left, right;  // GPUs
    size_t lane = 0;     // how far down
    double left_x = 0, right_x = 0;
  };

  // Returns the brackets, the shortest first. Two of one lane have no GPU in common, or only one at
  // their ends.
  std::vector<Bracket> brackets() const {
    std::vector<Bracket> all;
    for (const GpuLink& link : links_) {
      all.push_back({&link, static_cast<size_t>(link.gpu), static_cast<size_t>(link.target)});
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
    for (size_t gpu = 0; gpu < gpus(); ++gpu) {
      std::vector<double*> ends;
      for (Bracket& one : *brackets) {
        if (one.right == gpu) ends.push_back(&one.right_x);
      }
      for (auto one = brackets->rbegin(); one != brackets->rend(); ++one) {
        if (one->left == gpu) ends.push_back(&one->left_x);
      }
      const double step = kEndsWidth / static_cast<double>(ends.size() + 1);
      for (size_t i = 0; i < ends.size(); ++i) {
        *ends[i] = centre_x(gpu) - kEndsWidth / 2 + step * static_cast<double>(i + 1);
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
  pugi::xml_node parent_;
};

bool any_unknown(const RailDecision& decision) {
  for (size_t gpu = 1; gpu < decision.machine.gpus.size(); ++gpu) {
    if (may_have_unknown_link(decision, 0, gpu)) return true;
  }
  return false;
}

std::string caption(const RailDecision& decision, bool known) {
  const char* name = link_name(decision.machine.gpus[0]);
  if (!known) return fmt::format("{}: the source does not state whether it connects GPUs", name);
  return fmt::format("{} between GPUs, with the number of links", name);
}

}  // namespace

double links_width(const RailDecision& decision) {
  LinksPanel panel(decision);
  return panel.empty() ? 0 : panel.width();
}

double draw_links(pugi::xml_node svg, const RailDecision& decision, double y) {
  LinksPanel panel(decision);
  if (panel.empty() && !any_unknown(decision)) return y;
  pugi::xml_node parent = svg.append_child("g");
  set(parent, "id", "links");
  y += kRowHeight;
  add_text(parent, kMargin, y, caption(decision, !panel.empty()), "small", 120);
  return panel.empty() ? y : panel.draw(parent, y + 10);
}

}  // namespace gdr::tools::topo
