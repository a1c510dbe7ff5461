#include "tools/prediction/release.h"

#include <algorithm>
#include <cctype>
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

// The releases from kOldestRelease on that have a tag in NVIDIA's repository, v2.28.9-1 say: minor
// release and patch.
constexpr std::pair<int, int> kTagged[] = {{20, 3}, {20, 5}, {21, 5}, {22, 3}, {23, 4}, {24, 3},
                                           {25, 1}, {26, 2}, {26, 3}, {26, 5}, {26, 6}, {27, 3},
                                           {27, 5}, {27, 6}, {27, 7}, {28, 3}, {28, 7}, {28, 9},
                                           {29, 2}, {29, 3}, {29, 7}, {30, 3}, {30, 4}, {30, 7}};

bool has_tag(const Release& release) {
  return std::any_of(std::begin(kTagged), std::end(kTagged), [&](const auto& tagged) {
    return release.minor == tagged.first &&
           (release.patch == tagged.second || release.patch == kLastPatch);
  });
}

bool are_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Takes off what tags and packages put around a release.
std::string_view bare_release(std::string_view text) {
  if (text.starts_with('v')) text.remove_prefix(1);
  const size_t plus = text.find('+');
  if (plus != std::string_view::npos && plus + 1 < text.size()) text = text.substr(0, plus);
  const size_t dash = text.find('-');
  const bool has_build = dash != std::string_view::npos && are_digits(text.substr(dash + 1));
  return has_build ? text.substr(0, dash) : text;
}

}  // namespace

Result<Release> Release::parse(std::string_view text) {
  const std::vector<int> numbers = numbers_in(bare_release(text));
  if (numbers.size() == 1 && numbers[0] >= 2000) return of_code(numbers[0]);
  if (numbers.size() != 2 && numbers.size() != 3) {
    return fail(Code::kInvalidUsage, "it is not a release of NCCL such as 2.28.9");
  }
  return Release{numbers[0], numbers[1], numbers.size() == 3 ? numbers[2] : kLastPatch};
}

// NCCL_VERSION in nccl.h: releases before 2.9 have two digits less.
Release Release::of_code(int code) {
  if (code < 10000) return Release{code / 1000, code / 100 % 10, code % 100};
  return Release{code / 10000, code / 100 % 100, code % 100};
}

std::string Release::to_string() const {
  std::string text = std::to_string(major) + "." + std::to_string(minor);
  return patch == kLastPatch ? text : text + "." + std::to_string(patch);
}

std::string note_on_rules(const Release& release) {
  const bool is_last_known =
      release == Release{kNewestRelease.major, kNewestRelease.minor, kLastPatch};
  const Release known = std::clamp(release, kOldestRelease, kNewestRelease);
  if (is_last_known || (known == release && has_tag(release))) return "";
  if (known == release) {
    return "NVIDIA has tagged no NCCL " + release.to_string() +
           "; what it will do is predicted from the releases before and after it";
  }
  return "the rules of NCCL " + release.to_string() +
         " are not known; what it will do is predicted by those of " + known.to_string();
}

}  // namespace gdr::topology::nccl
