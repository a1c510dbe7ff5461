#include "topology/rail_map.h"

#include <charconv>
#include <fstream>

namespace gdr::topology {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;  // far more than the largest machine needs
constexpr int kMaxGpus = 4096;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  size_t from = text.find_first_not_of(kBlank);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(kBlank) - from + 1);
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (true) {
    size_t at = text.find_first_of(separators);
    parts.push_back(trimmed(text.substr(0, at)));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

bool parse_number(std::string_view text, int most, int* number) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && *number >= 0 &&
         *number <= most;
}

tl::unexpected<Error> bad(std::string_view entry, const std::string& what) {
  return fail(Code::kInvalidUsage, "in the entry \"" + std::string(entry.substr(0, 80)) + "\" " +
                                       what + "; examples of entries are GPU0=mlx5_0 and " +
                                       "0000:1b:00.0=mlx5_0:1,mlx5_1:1");
}

Result<RailMap::Target> parse_target(std::string_view entry, std::string_view text) {
  RailMap::Target target;
  if (Bdf::parse(text)) {  // an HCA of a file without names is called by its address
    target.hca = std::string(text);
    return target;
  }
  size_t colon = text.find(':');
  target.hca = std::string(trimmed(text.substr(0, colon)));
  if (target.hca.empty()) return bad(entry, "an HCA has no name");
  if (colon == std::string_view::npos) return target;
  if (!parse_number(trimmed(text.substr(colon + 1)), 255, &target.port) || target.port == 0) {
    return bad(entry, "the text after ':' is not a port number");
  }
  return target;
}

Result<RailMap::Entry> parse_entry(std::string_view text) {
  size_t equals = text.find('=');
  if (equals == std::string_view::npos) return bad(text, "there is no '='");
  RailMap::Entry entry;
  std::string_view gpu = trimmed(text.substr(0, equals));
  entry.gpu_text = std::string(gpu);
  std::string_view number = gpu.substr(0, 3) == "GPU" ? gpu.substr(3) : gpu;
  if (!parse_number(number, kMaxGpus, &entry.index)) {
    entry.index = -1;
    entry.bdf = Bdf::parse(gpu);
    if (!entry.bdf.has_value())
      return bad(text, "the text before '=' is neither the number nor the PCI address of a GPU");
  }
  for (std::string_view target_text : split(text.substr(equals + 1), ",")) {
    Result<RailMap::Target> target = parse_target(text, target_text);
    if (!target) return forward_error(target);
    entry.targets.push_back(std::move(*target));
  }
  return entry;
}

Result<std::string> read_file(const std::string& name) {
  std::ifstream file(name, std::ios::binary);
  if (!file) {
    return fail(Code::kInvalidUsage, "it has no '=', and there is no file of that name");
  }
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return fail(Code::kInvalidUsage, "the file of that name cannot be read");
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxFileBytes)
    return fail(Code::kInvalidUsage, "the file is larger than 1 MiB");
  return text;
}

}  // namespace

Result<RailMap> RailMap::parse_entries(std::string_view text) {
  RailMap map;
  for (std::string_view line : split(text, "\n")) {
    line = trimmed(line.substr(0, line.find('#')));
    for (std::string_view part : split(line, ";")) {
      if (part.empty()) continue;
      Result<Entry> entry = parse_entry(part);
      if (!entry) return forward_error(entry);
      map.entries_.push_back(std::move(*entry));
    }
  }
  if (map.entries_.empty()) return fail(Code::kInvalidUsage, "it has no entries");
  return map;
}

Result<RailMap> RailMap::parse(std::string_view text) {
  if (text.find('=') != std::string_view::npos) return parse_entries(text);
  Result<std::string> content = read_file(std::string(trimmed(text)));
  if (!content) return forward_error(content);
  return parse_entries(*content);
}

std::string RailMap::to_string() const {
  std::string text;
  for (const Entry& entry : entries_) {
    text += (text.empty() ? "" : ";") + entry.gpu_text;
    for (size_t i = 0; i < entry.targets.size(); ++i) {
      const Target& target = entry.targets[i];
      text += (i == 0 ? "=" : ",") + target.hca;
      if (target.port >= 0) text += ":" + std::to_string(target.port);
    }
  }
  return text;
}

}  // namespace gdr::topology
