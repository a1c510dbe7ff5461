// In what the machine differs from a good one, since no machine knows what it ought to have.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/facts/host.h"
#include "tools/doctor/report/profile.h"

namespace gdr::tools::doctor {
namespace {

Observation presence(const Difference& one, const std::string& good) {
  if (one.first == "yes") {
    return warning(one.subject, "it is here, and not in " + good,
                   "if that is meant, write the file of --expect again, on this machine");
  }
  return failure(one.subject, "missing: " + good + " has it",
                 "look for it in lspci and dmesg; if the PCI bus does not have it, reseat or "
                 "replace it");
}

// The numbers of a text, and the rest of it: "32 GT/s x16" is 32, 16 and " GT/s x".
std::pair<std::vector<double>, std::string> numbers_of(const std::string& text) {
  std::pair<std::vector<double>, std::string> result;
  for (size_t i = 0; i < text.size();) {
    if (std::isdigit(static_cast<unsigned char>(text[i])) == 0) {
      result.second += text[i++];
      continue;
    }
    size_t digits = 0;
    result.first.push_back(std::stod(text.substr(i), &digits));
    i += digits;
  }
  return result;
}

// Whether the machine has more than expected: a faster link, more of them, more memory.
bool is_more(const Difference& one) {
  constexpr auto kQuantities =
      std::to_array<std::string_view>({"link", "in use", "inks", "speed", "BAR1"});
  if (std::none_of(kQuantities.begin(), kQuantities.end(),
                   [&](std::string_view end) { return one.property.ends_with(end); })) {
    return false;
  }
  const auto [own, own_rest] = numbers_of(one.first);
  const auto [good, good_rest] = numbers_of(one.second);
  return own_rest == good_rest && own.size() == good.size() &&
         std::equal(own.begin(), own.end(), good.begin(), std::greater_equal<>());
}

// Whether all alike machines may have another value for a while, as during an update.
bool is_of_software(const Difference& one) {
  constexpr auto kProperties =
      std::to_array<std::string_view>({"firmware", "board", "type", "MTU of the interface"});
  if (one.property == kNcclFailure) return false;
  if (one.subject.empty()) return one.kind.empty();
  return std::find(kProperties.begin(), kProperties.end(), one.property) != kProperties.end();
}

Observation judged(const Difference& one, const std::string& good) {
  if (one.property == kPresence) return presence(one, good);
  const std::string evidence =
      fmt::format("{}: {}, expected {}", one.property, one.first, one.second);
  return is_of_software(one) || is_more(one)
             ? warning(one.subject, evidence,
                       "bring all nodes to one version, one setting and one speed")
             : failure(one.subject, evidence, "nccl-gdr doctor --all shows what is wrong with it");
}

}  // namespace

Observations run_good_machine(const Host& host) {
  if (!host.good.has_value()) return {nothing("--expect names no good machine")};
  // As from a file, which has no characters that are not UTF-8.
  const Profile own = parse_fingerprint(to_json(profile_of(host))).value();
  Observations seen;
  for (const Difference& one : compare_profiles(own, *host.good)) {
    seen.push_back(judged(one, host.good->host));
  }
  if (seen.empty()) seen.push_back(ok("", "it is like " + host.good->host));
  return seen;
}

}  // namespace gdr::tools::doctor
