#include "tools/topo/colours.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

namespace gdr::topology {
namespace {

// Neighbours differ in hue or lightness, as neighbouring rails lie side by side.
constexpr std::array<const char*, 16> kPalette = {
    "#4363d8", "#f58231", "#3cb44b", "#911eb4", "#42d4f4", "#e6194b", "#ffd319", "#7a4a1e",
    "#f032e6", "#469990", "#bfef45", "#000075", "#ff9ebb", "#808000", "#b59bf2", "#800000"};

constexpr double kGoldenAngle =
    137.508;  // degrees; steps of it never come close to each other soon

// One of the three channels of a colour of hue (degrees), 0..255.
int channel(double hue, double offset, double lightness) {
  constexpr double kSaturation = 0.65;
  double k = std::fmod(offset + hue / 30, 12);
  double amplitude = kSaturation * std::min(lightness, 1 - lightness);
  double value = lightness - amplitude * std::max(-1.0, std::min({k - 3, 9 - k, 1.0}));
  return static_cast<int>(std::lround(255 * value));
}

}  // namespace

std::string rail_colour(size_t rail_position) {
  if (rail_position < kPalette.size()) return kPalette[rail_position];
  size_t step = rail_position - kPalette.size();
  double hue = std::fmod(static_cast<double>(step) * kGoldenAngle, 360);
  double lightness = step % 2 == 0 ? 0.42 : 0.68;
  return fmt::format("#{:02x}{:02x}{:02x}", channel(hue, 0, lightness), channel(hue, 8, lightness),
                     channel(hue, 4, lightness));
}

const char* text_colour_on(const std::string& colour) {
  long rgb = std::strtol(colour.c_str() + 1, nullptr, 16);
  double luma = 0.299 * static_cast<double>((rgb >> 16) & 0xff) +
                0.587 * static_cast<double>((rgb >> 8) & 0xff) +
                0.114 * static_cast<double>(rgb & 0xff);
  return luma > 140 ? "#000000" : "#ffffff";
}

}  // namespace gdr::topology
