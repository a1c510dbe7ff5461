// Whole files, and the names in folders. An iterator over a stream's buffer lets the exception of a
// read() that fails through (libstdc++'s __ios_failure), as of a folder in the place of a file;
// istream::read() does not.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <istream>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "topology/model.h"

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

// Returns the names in a folder, with numbers in their order (mlx5_2 before mlx5_10); none where it
// cannot be listed. Names are as the file system has them: clean_text() before they are shown.
inline std::vector<std::string> folder_names(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator at(folder, error);
  for (const std::filesystem::directory_iterator end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  std::sort(names.begin(), names.end(), topology::name_less);
  return names;
}

}  // namespace gdr::tools::topo
