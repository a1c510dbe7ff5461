// What `nccl-gdr topo` does in each of its modes. All of them read the machines that a request
// names and return what to print.
#pragma once

#include <string>
#include <vector>

#include "tools/topo/inspection.h"

namespace gdr::tools::topo {

// As options.host: every host of a file.
inline constexpr char kAllHosts[] = "all";

enum class View { kMatrix, kJson, kNcclXml, kGroupedNcclXml, kSvg };

struct Request {
  InspectOptions options;  // but for `from`
  std::vector<std::string> sources = {"live"};
  bool json = false;
};

struct Outcome {
  std::string results;      // for stdout
  std::string diagnostics;  // for stderr
  std::string picture;      // for a file, where it was asked for
  int exit_code = 0;        // of tools/common/exit_codes.h; the greatest of all machines
};

// Shows one machine; with_picture: fills Outcome::picture, too.
Outcome view_mode(const Request& request, View view, bool with_picture);

// Shows several machines, also where a source has several hosts: a table, or JSON Lines
// (View::kJson).
Outcome fleet_mode(const Request& request, View view);

}  // namespace gdr::tools::topo
