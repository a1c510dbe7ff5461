// Whether this process has loaded a library, for questions that are asked again and again.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace gdr {

// Looks through the libraries of the process itself: dlopen(3) with RTLD_NOLOAD would search the
// library path for the file, and take a reference. It looks again only where the process has loaded
// or unloaded a library since, so that the answer is right, and costs little in a process of many
// libraries. Thread-safe.
class LoadedLibrary {
 public:
  using Matches = bool (*)(std::string_view file_name);  // of the path, what is behind the last '/'

  constexpr explicit LoadedLibrary(Matches matches) : matches_(matches) {}
  bool is_loaded();

 private:
  const Matches matches_;
  // The answer in the lowest bit; above it, how many libraries had been loaded and unloaded then,
  // plus one.
  std::atomic<uint64_t> known_{0};
};

}  // namespace gdr
