// One colour for each rail, the same in every picture.
#pragma once

#include <cstddef>
#include <string>

namespace gdr::topology {

inline constexpr char kGrey[] = "#9a9a9a";  // of what belongs to no rail

// "#4363d8". The first 16 are chosen to be told apart; later ones are steps in hue.
std::string rail_colour(size_t rail_position);

// The one of black and white that is easier to read on this colour.
const char* text_colour_on(const std::string& colour);

}  // namespace gdr::topology
