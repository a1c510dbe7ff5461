// The error counters of a port, as the kernel shows them in sysfs.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "tools/doctor/facts/counters.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;

constexpr std::array kCounterFolders{"counters", "hw_counters"};

// In lower case, as parts of a name.
constexpr auto kWordsOfErrors = std::to_array<std::string_view>(
    {"err",      "timeout", "retr",      "nak",       "drop",     "discard", "exceed",  "dup",
     "out_of",   "oos",     "seq",       "downed",    "overrun",  "oflow",   "recover", "integrity",
     "invalid",  "icrc",    "bad_",      "missing",   "mismatch", "no_perm", "noroute", "no_route",
     "truncate", "unsup",   "unaligned", "violation", "lost",     "unresp",  "impaired"});
constexpr auto kWordsOfOthers =
    std::to_array<std::string_view>({"flush", "vl15", "deferred", "lifespan"});

template <size_t kSize>
bool has_word(std::string_view name, const std::array<std::string_view, kSize>& words) {
  return std::ranges::any_of(
      words, [name](std::string_view word) { return name.find(word) != std::string_view::npos; });
}

fs::path counter_folder(const std::string& ibdev_path, int port, const char* name) {
  return fs::path(ibdev_path) / "ports" / std::to_string(port) / name;
}

std::optional<uint64_t> read_counter(const fs::path& path) {
  std::string text;
  std::ifstream file(path);
  if (!std::getline(file, text)) return {};
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

}  // namespace

HardwareCounters read_hardware_counters(const std::string& ibdev_path, int port) {
  HardwareCounters counters;
  for (const char* name : kCounterFolders) {
    std::error_code error;
    fs::directory_iterator file(counter_folder(ibdev_path, port, name), error);
    for (; !error && file != fs::directory_iterator(); file.increment(error)) {
      const std::string counter = file->path().filename();
      if (!is_symptom(counter)) continue;
      if (const auto value = read_counter(file->path())) counters.emplace(counter, *value);
    }
  }
  return counters;
}

bool is_symptom(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return has_word(lower, kWordsOfErrors) && !has_word(lower, kWordsOfOthers);
}

}  // namespace gdr::tools::doctor
