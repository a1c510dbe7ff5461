#include "tools/topo/expected_share.h"

namespace gdr::topology {

const char* const kExpectedShareNote =
    "Expected shares of line rate are from the literature (guides to GPUDirect RDMA), not measured "
    "here.";

const char* expected_share(std::string_view display_name) {
  if (display_name == "PIX") return "95-98 %";
  if (display_name == "PHB") return "85-92 %";
  if (display_name == "SYS") return "30-50 %";
  return "-";
}

}  // namespace gdr::topology
