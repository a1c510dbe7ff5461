// What differs between NCCL's releases, as far as it decides which HCA a GPU uses: facts about
// src/graph/{topo,paths}.cc of each release, one member each.
#pragma once

#include "tools/prediction/release.h"

namespace gdr::topology::oracle {

struct ReleaseRules {
  explicit ReleaseRules(nccl::Release release);

  // Building the graph.
  bool functions_are_one_nic;     // until 2.23: NIC functions that differ in the last digit only
  bool pci_links;                 // from 2.22: <pcilink> is a link
  bool skips_first_switch;        // until 2.26: the search for Broadcom switches, when it restarts
  bool device_nodes;              // from 2.30: a GPU hangs on a node of its own, its device
  bool partitions;                // from 2.30.5: MLOPart splits the device
  bool c2c_links;                 // from 2.26: C2C is a kind of link; before, it is NVLink
  float nvlink_sm100;             // gigabytes per second of one NVLink of compute capability 10.0
  bool newer_intel;               // from 2.26: Sapphire and Emerald Rapids have faster links
  bool cpu_search_skips_devices;  // from 2.22; before, it enters GPUs and NICs, too
  bool cpu_search_turns_back;     // until 2.25 it may return to where it came from, forever

  // Routes.
  bool unreached_is_far;      // from 2.21; before, a route not found has class LOC
  bool own_unreached_is_far;  // from 2.23: the same between devices of one kind
  bool class_first;           // from 2.30.5: the better class wins, then bandwidth, then hops
  bool fastest_cpu;           // from 2.30.5: a GPU's CPU is the fastest; before, the nearest
  bool strict_p2p;            // from 2.23: no P2P beyond PXB, but for two GPUs on AMD
  bool keeps_far_routes;      // from 2.21: only routes below PHB are diverted to the CPU

  // NCCL_NET_GDR_LEVEL, NCCL_NET_GDR_C2C, PXN.
  // Which routes over C2C and PCIe get class P2C: in 2.27.3 those that are PHB.
  enum class P2c { kNone, kPhb, kAll, kNearest } p2c;
  bool pxn_before_p2c;       // 2.27.3: P2C is beyond PXN
  bool joins_to_p2c;         // from 2.27.5: C2C and PHB in a row are P2C
  bool pxn_only_beyond_pxn;  // from 2.27.5; before, beyond PXB
  bool knows_c2c_level;      // from 2.26: "C2C" as a level
  bool knows_p2c_level;      // from 2.27: "P2C" as a level
  bool has_gdr_c2c;          // from 2.26: NCCL_NET_GDR_C2C
  bool gdr_c2c_default;      // from 2.27: 1
  bool p2c_is_c2c;           // 2.27 and 2.28: P2C counts as C2C
  bool pxn_c2c_default;      // from 2.28: 1
  bool pxn_needs_gdr;        // from 2.30: the relaying GPU must read by GPUDirect

  // Devices of a GPU.
  int channels;          // MAXCHANNELS
  bool netdevs_policy;   // from 2.28: NCCL_NETDEVS_POLICY
  bool wraps_at_locals;  // from 2.30.5: GPU numbers count modulo the GPUs that share the devices
};

}  // namespace gdr::topology::oracle
