#include "tests/unit/tools/prediction/oracle/release_rules.h"

namespace gdr::topology::oracle {

ReleaseRules::ReleaseRules(nccl::Release release) {
  const auto from = [release](int minor, int patch = 0) {
    return release >= nccl::Release{2, minor, patch};
  };
  functions_are_one_nic = !from(24);
  pci_links = from(22);
  skips_first_switch = !from(27);
  device_nodes = from(30);
  partitions = from(30, 5);
  c2c_links = from(26);
  nvlink_sm100 = from(27, 5) ? 40.1F : from(25) ? 40.0F : 20.6F;
  newer_intel = from(26);
  cpu_search_skips_devices = from(22);
  cpu_search_turns_back = !from(26);

  unreached_is_far = from(21);
  own_unreached_is_far = from(23);
  class_first = from(30, 5);
  fastest_cpu = from(30, 5);
  strict_p2p = from(23);
  keeps_far_routes = from(21);

  p2c = from(29) ? P2c::kNearest : from(27, 5) ? P2c::kAll : from(27) ? P2c::kPhb : P2c::kNone;
  pxn_before_p2c = p2c == P2c::kPhb;
  joins_to_p2c = from(27, 5);
  pxn_only_beyond_pxn = from(27, 5);
  knows_c2c_level = from(26);
  knows_p2c_level = from(27);
  has_gdr_c2c = from(26);
  gdr_c2c_default = from(27);
  p2c_is_c2c = from(27) && !from(29);
  pxn_c2c_default = from(28);
  pxn_needs_gdr = from(30);

  channels = from(25) ? 64 : 32;
  netdevs_policy = from(28);
  wraps_at_locals = from(30, 5);
}

}  // namespace gdr::topology::oracle
