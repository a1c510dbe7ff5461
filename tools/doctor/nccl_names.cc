// The names of NCCL's own variables, to find misspelt ones.
#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "plugin/config/values.h"
#include "tools/doctor/nccl_settings.h"

namespace gdr::tools::doctor {
namespace {

// In order. What NCCL's releases 2.20 to 2.30 document, with the few other variables that they read
// and that could be taken for a misspelt one of these.
constexpr std::string_view kNcclNames[] = {
    "NCCL_ALGO",
    "NCCL_ALLOC_P2P_NET_LL_BUFFERS",
    "NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT",
    "NCCL_BUFFSIZE",
    "NCCL_CGA_CLUSTER_SIZE",
    "NCCL_CHECK_POINTERS",
    "NCCL_COLLNET_ENABLE",
    "NCCL_COLLNET_NODE_THRESHOLD",
    "NCCL_COMM_BLOCKING",
    "NCCL_COMM_ID",
    "NCCL_CONF_FILE",
    "NCCL_CROSS_NIC",
    "NCCL_CTA_POLICY",
    "NCCL_CUMEM_ENABLE",
    "NCCL_CUMEM_HOST_ENABLE",
    "NCCL_DEBUG",
    "NCCL_DEBUG_FILE",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_DEBUG_TIMESTAMP_FORMAT",
    "NCCL_DEBUG_TIMESTAMP_LEVELS",
    "NCCL_DMABUF_ENABLE",
    "NCCL_GDRCOPY_ENABLE",
    "NCCL_GIN_ENABLE",
    "NCCL_GIN_TYPE",
    "NCCL_GRAPH_DUMP_FILE",
    "NCCL_GRAPH_FILE",
    "NCCL_GRAPH_MIXING_SUPPORT",
    "NCCL_GRAPH_REGISTER",
    "NCCL_HOSTID",
    "NCCL_IBVERBS_LIB",
    "NCCL_IGNORE_CPU_AFFINITY",
    "NCCL_IGNORE_DISABLED_P2P",
    "NCCL_LAUNCH_MODE",
    "NCCL_LAUNCH_ORDER_IMPLICIT",
    "NCCL_LAUNCH_RACE_FATAL",
    "NCCL_LEGACY_CUDA_REGISTER",
    "NCCL_LL_THRESHOLD",
    "NCCL_LOCAL_REGISTER",
    "NCCL_MAX_CTAS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_NRINGS",
    "NCCL_MAX_P2P_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MIN_NRINGS",
    "NCCL_MIN_P2P_NCHANNELS",
    "NCCL_MNNVL_CLIQUE_ID",
    "NCCL_MNNVL_ENABLE",
    "NCCL_MNNVL_UUID",
    "NCCL_NCHANNELS_PER_NET_PEER",
    "NCCL_NET",
    "NCCL_NETDEVS_POLICY",
    "NCCL_NET_DISABLE_INTRA",
    "NCCL_NET_FORCE_MERGE",
    "NCCL_NET_GDR_C2C",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_GDR_MLOPART",
    "NCCL_NET_GDR_READ",
    "NCCL_NET_MERGE_LEVEL",
    "NCCL_NET_MERGE_POLICY",
    "NCCL_NET_PLUGIN",
    "NCCL_NET_PLUGIN_REF_COUNT",
    "NCCL_NET_SHARED_BUFFERS",
    "NCCL_NET_SHARED_COMMS",
    "NCCL_NSOCKS_PERTHREAD",
    "NCCL_NTHREADS",
    "NCCL_NVB_DISABLE",
    "NCCL_NVLS_CHUNKSIZE",
    "NCCL_NVLS_ENABLE",
    "NCCL_NVLS_NCHANNELS",
    "NCCL_NVTX_DISABLE",
    "NCCL_OOB_NET_ENABLE",
    "NCCL_OOB_NET_IFNAME",
    "NCCL_P2P_DIRECT_DISABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_P2P_NET_CHUNKSIZE",
    "NCCL_P2P_NVL_CHUNKSIZE",
    "NCCL_P2P_PCI_CHUNKSIZE",
    "NCCL_P2P_PXN_LEVEL",
    "NCCL_PAT_ENABLE",
    "NCCL_PROFILER_PLUGIN",
    "NCCL_PROTO",
    "NCCL_PXN_C2C",
    "NCCL_PXN_DISABLE",
    "NCCL_RAS_ADDR",
    "NCCL_RAS_ENABLE",
    "NCCL_RAS_TIMEOUT_FACTOR",
    "NCCL_RUNTIME_CONNECT",
    "NCCL_SET_STACK_SIZE",
    "NCCL_SET_THREAD_NAME",
    "NCCL_SHM_DISABLE",
    "NCCL_SHM_LOCALITY",
    "NCCL_SHM_MEMCPY_MODE",
    "NCCL_SHM_USE_CUDA_MEMCPY",
    "NCCL_SINGLE_PROC_MEM_REG_ENABLE",
    "NCCL_SINGLE_RING_THRESHOLD",
    "NCCL_SYM_CTAS",
    "NCCL_THREAD_THRESHOLDS",
    "NCCL_TOPO_DUMP_FILE",
    "NCCL_TOPO_FILE",
    "NCCL_TREE_THRESHOLD",
    "NCCL_TUNER_CONFIG_PATH",
    "NCCL_TUNER_PLUGIN",
    "NCCL_WIN_ENABLE",
    "NCCL_WORK_FIFO_DEPTH",
};

// Whether one word is another one, such as P2P in NCCL_P2P_ENABLE and PAT in NCCL_PAT_ENABLE: half
// of its letters differ.
bool has_another_word(std::string_view a, std::string_view b) {
  if (std::ranges::count(a, '_') != std::ranges::count(b, '_')) return false;
  while (true) {
    const std::string word(a.substr(0, a.find('_'))), other(b.substr(0, b.find('_')));
    if (2 * config::edit_distance(word, other) > std::max(word.size(), other.size())) return true;
    if (word.size() == a.size() || other.size() == b.size()) return false;
    a.remove_prefix(word.size() + 1);
    b.remove_prefix(other.size() + 1);
  }
}

}  // namespace

bool is_nccl_name(const std::string& name) {
  return std::binary_search(std::begin(kNcclNames), std::end(kNcclNames), name);
}

std::string nccl_name_like(const std::string& name) {
  std::string nearest;
  // Of more letters that differ, names are alike by accident: a quarter of those behind NCCL_, two
  // at most.
  constexpr size_t kPrefix = 5;
  size_t least = 1 + std::clamp<size_t>((std::max(name.size(), kPrefix) - kPrefix) / 4, 1, 2);
  for (const std::string_view known : kNcclNames) {
    const size_t distance = config::edit_distance(name, std::string(known));
    if (distance >= least || has_another_word(name, known)) continue;
    least = distance;
    nearest = known;
  }
  return nearest;
}

}  // namespace gdr::tools::doctor
