#include "plugin/config/values.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace gdr::config {
namespace {

constexpr size_t kLongestShown = 128;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

std::optional<int64_t> nccl_number(const std::string& text) {
  errno = 0;
  const long long number = std::strtoll(text.c_str(), nullptr, 0);
  return errno == 0 ? std::optional<int64_t>(number) : std::nullopt;
}

Status parse_integer(const std::string& text, IntegerRange range, int* value) {
  const char* begin = text.c_str();
  char* end = nullptr;
  errno = 0;
  long long number = std::strtoll(begin, &end, 0);
  if (end == begin) return fail(Code::kInvalidUsage, "it is not a number");
  bool out_of_range = errno == ERANGE || number < range.low || number > range.high;
  const char* rest = std::find_if_not(static_cast<const char*>(end), begin + text.size(), is_blank);
  if (rest != begin + text.size()) {
    return fail(Code::kInvalidUsage, "text follows the number");
  }
  if (out_of_range) return fail(Code::kInvalidUsage, "it is out of range");
  *value = static_cast<int>(number);
  return {};
}

Status parse_boolean(const std::string& text, bool of_nccl, bool* value) {
  int number = 0;
  if (!parse_integer(text, {0, 1}, &number)) {
    return fail(Code::kInvalidUsage, std::string("it is neither 0 nor 1") +
                                         (of_nccl ? " (NCCL reads any number but 0 as 1)" : ""));
  }
  *value = number == 1;
  return {};
}

Status parse_family(const std::string& text, int* value) {
  for (int family : {AF_INET, AF_INET6}) {
    if (text != family_name(family)) continue;
    *value = family;
    return {};
  }
  return fail(Code::kInvalidUsage, "it is neither of the two; use capitals");
}

const char* family_name(int family) {
  return family == AF_INET ? "AF_INET" : family == AF_INET6 ? "AF_INET6" : "";
}

std::string printable(const std::string& text) {
  std::string shown;
  for (size_t i = 0; i < text.size() && i < kLongestShown; ++i) {
    unsigned char c = static_cast<unsigned char>(text[i]);
    shown += c < 0x20 || c >= 0x7f ? '?' : text[i];
  }
  return text.size() > kLongestShown ? shown + "..." : shown;
}

std::string quoted(const std::string& text) { return '"' + printable(text) + '"'; }

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace gdr::config
