// Runs tests/metrics/check_page.py on a page of metrics.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/fakes/temp_folder.h"

namespace gdr {

// The status of the script where the package python3-prometheus-client is not installed.
inline constexpr int kPageParserMissing = 77;

struct PageCheck {
  int status = -1;         // 0: there are none
  std::string objections;  // one in each line
};

inline PageCheck check_page(const TempFolder& folder, const std::string& page) {
  const std::string file = (folder.path() / "page.prom").string();
  const std::string output = file + ".objections";
  std::ofstream(file, std::ios::binary) << page;
  // The distribution's interpreter has the distribution's packages; another one may precede it.
  const std::string command = "PATH=\"/usr/bin:$PATH\" python3 -B '" GDR_CHECK_PAGE "' '" + file +
                              "' > '" + output + "' 2>&1";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_whole(output)};
}

}  // namespace gdr
