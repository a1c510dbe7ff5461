#include "softhca/model/link_speed.h"

#include <sstream>

namespace softhca {

namespace {

struct Lane {
  uint16_t code;
  double gbps;
  const char* name;
};

constexpr Lane kLanes[] = {{1, 2.5, "SDR"},  {2, 5, "DDR"},     {4, 10, "QDR"},
                           {8, 10, "FDR10"}, {16, 14, "FDR"},   {32, 25, "EDR"},
                           {64, 50, "HDR"},  {128, 100, "NDR"}, {256, 200, "XDR"}};

struct Link {
  uint32_t gbps;
  LinkSpeed link;
};

constexpr Link kLinks[] = {{10, {1, 4}},   {25, {1, 32}},  {40, {2, 4}},    {56, {2, 16}},
                           {100, {2, 32}}, {200, {2, 64}}, {400, {2, 128}}, {800, {4, 128}}};

// Returns 0 for an unknown width.
uint32_t lanes(uint8_t width) {
  switch (width) {
    case 1:
      return 1;
    case 2:
      return 4;
    case 4:
      return 8;
    case 8:
      return 12;
    case 16:
      return 2;
    default:
      return 0;
  }
}

const Lane* find_lane(uint16_t code) {
  for (const Lane& lane : kLanes) {
    if (lane.code == code) return &lane;
  }
  return nullptr;
}

}  // namespace

LinkSpeed encode_speed(uint32_t gbps) {
  LinkSpeed best = kLinks[0].link;
  for (const Link& link : kLinks) {
    if (link.gbps <= gbps) best = link.link;
  }
  return best;
}

uint16_t lane_speed(double gbps, uint8_t width) {
  uint16_t best = kLanes[0].code;
  for (const Lane& lane : kLanes) {
    if (lane.gbps * lanes(width) <= gbps) best = lane.code;
  }
  return best;
}

double rate_of(LinkSpeed link) {
  const Lane* lane = find_lane(link.speed);
  return lane == nullptr ? 0 : lane->gbps * lanes(link.width);
}

std::string rate_text(double gbps, LinkSpeed link) {
  const Lane* lane = find_lane(link.speed);
  std::ostringstream text;
  text << gbps << " Gb/sec (" << lanes(link.width) << "X " << (lane == nullptr ? "SDR" : lane->name)
       << ")";
  return text.str();
}

}  // namespace softhca
