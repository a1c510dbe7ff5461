#include "tools/doctor/burn_in_pairs.h"

#include <algorithm>

namespace gdr::tools::doctor {

void BurnInPairs::add(const BurnInEnd& sender, const BurnInEnd& receiver, bool is_reached) {
  (is_reached ? reached_ : unreached_).emplace(sender.device, receiver.device);
  for (const BurnInEnd* end : {&sender, &receiver}) fabrics_[end->device] = end->fabric;
}

std::string BurnInPairs::fault_of(const BurnInEnd& sender, const BurnInEnd& receiver) const {
  if (connected_to(sender.device).contains(receiver.device)) {
    return "the fabric connects the two, as other pairs of this run show";
  }
  if (!is_used(sender.fabric)) return "";
  std::string alone;
  for (const BurnInEnd* end : {&sender, &receiver}) {
    if (reaches_none(*end)) alone += (alone.empty() ? "" : " and ") + end->rail;
  }
  return alone.empty() ? ""
                       : "other rails of this fabric reach each other, and none reaches " + alone;
}

// The rails that messages get to over any number of pairs, in either direction, and itself.
std::set<int> BurnInPairs::connected_to(int device) const {
  std::set<int> connected = {device};
  for (size_t before = 0; before != connected.size();) {
    before = connected.size();
    for (const auto& [from, to] : reached_) {
      if (!connected.contains(from) && !connected.contains(to)) continue;
      connected.insert({from, to});
    }
  }
  return connected;
}

// Of one failed pair either rail may be the reason.
bool BurnInPairs::reaches_none(const BurnInEnd& end) const {
  const auto has_it = [&](const auto& pair) {
    return pair.first == end.device || pair.second == end.device;
  };
  return std::none_of(reached_.begin(), reached_.end(), has_it) &&
         std::count_if(unreached_.begin(), unreached_.end(), has_it) > 1;
}

// Whether any two of its rails have reached each other.
bool BurnInPairs::is_used(const std::string& fabric) const {
  return std::any_of(reached_.begin(), reached_.end(),
                     [&](const auto& pair) { return fabrics_.at(pair.first) == fabric; });
}

}  // namespace gdr::tools::doctor
