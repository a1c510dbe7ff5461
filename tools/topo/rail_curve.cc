#include "tools/topo/rail_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gdr::tools::topo {
namespace {

constexpr int kSteps = 100;         // points of a curve that are looked at
constexpr double kHalfWidth = 2.5;  // of the line with its edge
constexpr double kFar = 1e6;        // beyond all pictures
constexpr double kBelow = 6;        // by which a line may go out of the boxes, above the next words
// In pixels, by which a curve may leave its ends up or down to get around cards.
constexpr double kBends[] = {30, -30, 60, -60, 100, -100, 150, -150};

// Returns the curve that is bent least: out of the tag's side and into the strip's.
Curve direct_curve(const RailDecision& decision, const Layout& layout, const Layout::Tag& tag) {
  const PortRef port = decision.plan.rails[tag.pair.rail].port;
  const Rect& hca = layout.hcas[port.hca];
  const Rect strip = port_rect(hca, port.port);
  const bool is_right = hca.x > tag.rect.x + tag.rect.width;
  const bool is_left = hca.x + hca.width < tag.rect.x;
  // So that the lines of one GPU do not cover each other, a later rail swings out less.
  const std::vector<int>& rails = decision.plan.gpus[tag.pair.gpu].rails;
  const auto rank = static_cast<double>(
      std::find(rails.begin(), rails.end(), static_cast<int>(tag.pair.rail)) - rails.begin());
  const auto count = static_cast<double>(rails.size());
  const Point from{is_right ? tag.rect.x + tag.rect.width : tag.rect.x,
                   tag.rect.y + tag.rect.height / 2};
  const Point to{is_left ? strip.x + strip.width : strip.x, strip.y + strip.height / 2};
  const double beside = std::max(20.0, std::abs(to.x - from.x) / 2);
  const double out = is_right ? beside : is_left ? -beside : -14 - 14 * (count - rank) / count;
  const double in = is_right || is_left ? -out : out;
  return {from, {from.x + out, from.y}, {to.x + in, to.y}, to};
}

// Returns what is above and below the boxes of the layout.
std::vector<Rect> outside_of(const Layout& layout) {
  double top = kFar, bottom = -kFar;
  auto add = [&](const Rect& rect) {
    top = std::min(top, rect.y);
    bottom = std::max(bottom, rect.y + rect.height);
  };
  for (const Rect& rect : layout.gpus) add(rect);
  for (const Rect& rect : layout.hcas) add(rect);
  for (const Layout::Frame& frame : layout.frames) add(frame.rect);
  return {Rect{-kFar, top - kFar, 2 * kFar, kFar}, Rect{-kFar, bottom + kBelow, 2 * kFar, kFar}};
}

// Returns what the line of a tag should not touch: all cards and tags but those at its ends, and
// what is outside of the boxes.
std::vector<Rect> obstacles_of(const RailDecision& decision, const Layout& layout,
                               const Layout::Tag& tag) {
  std::vector<Rect> obstacles = outside_of(layout);
  obstacles.insert(obstacles.end(), layout.gpus.begin(), layout.gpus.end());
  const int own = decision.plan.rails[tag.pair.rail].port.hca;
  for (size_t hca = 0; hca < layout.hcas.size(); ++hca) {
    if (static_cast<int>(hca) != own) obstacles.push_back(layout.hcas[hca]);
  }
  for (const Layout::Tag& one : layout.tags) {
    if (one.pair.gpu != tag.pair.gpu || one.pair.rail != tag.pair.rail) {
      obstacles.push_back(one.rect);
    }
  }
  return obstacles;
}

// Returns curves with the ends of `direct`, itself first, then those that are bent more and more.
std::vector<Curve> candidates(const Curve& direct) {
  std::vector<Curve> curves = {direct};
  for (double bend : kBends) {
    for (double other : {bend, -bend, bend / 2, 0.0}) {
      for (double near : {1.0, 0.3}) {
        Curve curve = direct;
        curve.control_from = {direct.from.x + near * (direct.control_from.x - direct.from.x),
                              direct.from.y + bend};
        curve.control_to = {direct.to.x + near * (direct.control_to.x - direct.to.x),
                            direct.to.y + other};
        curves.push_back(curve);
        curve.control_from.y = direct.from.y + other;
        curve.control_to.y = direct.to.y + bend;
        curves.push_back(curve);
      }
    }
  }
  return curves;
}

}  // namespace

std::string Curve::path() const {
  return fmt::format("M {:.1f} {:.1f} C {:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", from.x, from.y,
                     control_from.x, control_from.y, control_to.x, control_to.y, to.x, to.y);
}

Point Curve::at(double t) const {
  const double u = 1 - t;
  auto mix = [&](double a, double b, double c, double d) {
    return u * u * u * a + 3 * u * u * t * b + 3 * u * t * t * c + t * t * t * d;
  };
  return {mix(from.x, control_from.x, control_to.x, to.x),
          mix(from.y, control_from.y, control_to.y, to.y)};
}

bool Curve::touches(const Rect& rect) const {
  // The curve lies within its four points.
  const auto [left, right] = std::minmax({from.x, control_from.x, control_to.x, to.x});
  const auto [top, bottom] = std::minmax({from.y, control_from.y, control_to.y, to.y});
  if (right < rect.x - kHalfWidth || left > rect.x + rect.width + kHalfWidth ||
      bottom < rect.y - kHalfWidth || top > rect.y + rect.height + kHalfWidth) {
    return false;
  }
  for (int i = 0; i <= kSteps; ++i) {
    const Point point = at(static_cast<double>(i) / kSteps);
    if (point.x > rect.x - kHalfWidth && point.x < rect.x + rect.width + kHalfWidth &&
        point.y > rect.y - kHalfWidth && point.y < rect.y + rect.height + kHalfWidth) {
      return true;
    }
  }
  return false;
}

Curve rail_curve(const RailDecision& decision, const Layout& layout, const Layout::Tag& tag) {
  const std::vector<Rect> obstacles = obstacles_of(decision, layout, tag);
  const std::vector<Curve> curves = candidates(direct_curve(decision, layout, tag));
  size_t best = 0, fewest = obstacles.size() + 1;
  for (size_t i = 0; i < curves.size() && fewest > 0; ++i) {
    const auto touched = static_cast<size_t>(
        std::count_if(obstacles.begin(), obstacles.end(),
                      [&](const Rect& obstacle) { return curves[i].touches(obstacle); }));
    if (touched < fewest) best = i, fewest = touched;
  }
  return curves[best];
}

}  // namespace gdr::tools::topo
