#include "tools/topo/rail_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gdr::tools::topo {
namespace {

constexpr int kSteps = 200;         // points of a curve that are looked at
constexpr double kHalfWidth = 2.5;  // of the line with its edge

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

}  // namespace gdr::tools::topo
