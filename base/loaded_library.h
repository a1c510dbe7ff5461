// Whether this process has loaded a library.
#pragma once

#include <functional>
#include <string_view>

namespace gdr {

// Looks through the libraries of the process itself for one whose file name, without its folder,
// matches: dlopen(3) with RTLD_NOLOAD would search the library path for the file, and take a
// reference. It takes microseconds in a process of many libraries. Thread-safe.
bool has_loaded(const std::function<bool(std::string_view file_name)>& matches);

}  // namespace gdr
