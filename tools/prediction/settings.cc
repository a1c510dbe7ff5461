#include "tools/prediction/settings.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace gdr::topology::nccl {
namespace {

// Returns the numbers of a text such as "2.28.9"; empty where it has anything else.
std::vector<int> numbers_in(std::string_view text) {
  std::vector<int> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int number = 0;
    auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 0) return {};
    numbers.push_back(number);
    if (next == end) return numbers;
    if (*next != '.') return {};
    at = next + 1;
  }
}

}  // namespace

Result<Release> Release::parse(std::string_view text) {
  const std::vector<int> numbers = numbers_in(text);
  if (numbers.size() == 1 && numbers[0] >= 20000) {  // NCCL_VERSION in nccl.h
    return Release{numbers[0] / 10000, numbers[0] / 100 % 100, numbers[0] % 100};
  }
  if (numbers.size() != 2 && numbers.size() != 3) {
    return fail(Code::kInvalidUsage, "it is not a release of NCCL such as 2.28.9");
  }
  return Release{numbers[0], numbers[1], numbers.size() == 3 ? numbers[2] : kLastPatch};
}

std::string Release::to_string() const {
  std::string text = std::to_string(major) + "." + std::to_string(minor);
  return patch == kLastPatch ? text : text + "." + std::to_string(patch);
}

std::string note_on_rules(const Release& release) {
  const bool is_last_known =
      release == Release{kNewestRelease.major, kNewestRelease.minor, kLastPatch};
  const Release known = std::clamp(release, kOldestRelease, kNewestRelease);
  if (is_last_known || known == release) return "";
  return "the rules of NCCL " + release.to_string() +
         " are not known; what it will do is predicted by those of " + known.to_string();
}

}  // namespace gdr::topology::nccl
