// Whole files. An iterator over a stream's buffer lets the exception of a read() that fails through
// (libstdc++'s __ios_failure), as of a folder in the place of a file; istream::read() does not.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <istream>
#include <optional>
#include <string>
#include <system_error>

namespace gdr::tools::topo {

inline constexpr size_t kMostFileBytes = size_t{1} << 26;

// Returns what is left of a stream; nothing where it cannot be read, or is longer than `most`.
inline std::optional<std::string> rest_of_stream(std::istream& stream, size_t most) {
  std::string text;
  std::array<char, 16384> part;
  while (stream.read(part.data(), part.size()) || stream.gcount() > 0) {
    text.append(part.data(), static_cast<size_t>(stream.gcount()));
    if (text.size() > most) return {};
  }
  if (stream.bad()) return {};
  return text;
}

// Returns a file's content; nothing where it is no regular file, as files of /proc and /sys are,
// cannot be read, or is longer than `most`.
inline std::optional<std::string> file_content(const std::filesystem::path& file,
                                               size_t most = kMostFileBytes) {
  std::error_code unreadable;
  if (!std::filesystem::is_regular_file(file, unreadable)) return {};
  std::ifstream stream(file, std::ios::binary);
  if (!stream.is_open()) return {};
  return rest_of_stream(stream, most);
}

}  // namespace gdr::tools::topo
