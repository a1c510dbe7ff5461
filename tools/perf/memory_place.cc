#include "tools/perf/memory_place.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>

namespace gdr::tools {
namespace {
constexpr size_t kMostPlaces = 2;

std::optional<MemoryPlace> parse_place(std::string_view text) {
  constexpr std::string_view kNumbered = "cuda:";
  if (text == "host") return MemoryPlace{};
  if (text == "cuda") return MemoryPlace{true, -1};
  if (!text.starts_with(kNumbered)) return std::nullopt;
  MemoryPlace place{true, -1};
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data() + kNumbered.size(), end, place.device);
  bool number = error == std::errc{} && stop == end && text[kNumbered.size()] != '-';
  return number ? std::optional(place) : std::nullopt;
}
}  // namespace

Result<std::vector<MemoryPlace>> parse_memory(const std::string& text) {
  std::vector<MemoryPlace> places;
  std::string_view rest = text;
  for (bool more = true; more;) {
    size_t comma = rest.find(',');
    std::string_view word = rest.substr(0, comma);
    std::optional<MemoryPlace> place = parse_place(word);
    if (!place) {
      return fail(Code::kInvalidArgument,
                  fmt::format("--memory: \"{}\" is none of host, cuda and cuda:N", word));
    }
    places.push_back(*place);
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);
  }
  if (places.size() > kMostPlaces) {
    return fail(Code::kInvalidArgument,
                fmt::format("--memory: {} places; one for all ranks or one per side, so two",
                            places.size()));
  }
  return places;
}

}  // namespace gdr::tools
