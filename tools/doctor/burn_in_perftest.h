// perftest (github.com/linux-rdma/perftest), whose programs measure a port by verbs alone: which of
// them are installed, what they can do, and their arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/doctor/burn_in.h"

namespace gdr::tools::doctor {

struct Host;

struct Perftest {
  std::string version;              // "6.06", of ib_write_bw --version; "" where it prints none
  std::string write_bw, write_lat;  // paths
  std::string send_lat;             // "": it is not installed
  // Whether its help lists the option, which depends on how it was built (Debian's lacks all
  // three). Bus IDs are PCI addresses, which no CUDA_VISIBLE_DEVICES renumbers.
  bool has_cuda = false;         // --use_cuda
  bool has_cuda_bus_id = false;  // --use_cuda_bus_id
  bool has_cuda_dmabuf = false;  // --use_cuda_dmabuf

  bool measures_gpus() const { return has_cuda || has_cuda_bus_id; }
};

// Looks in the folders of `path`, as PATH has them, and runs ib_write_bw --version and --help.
// kUnsupported, with what is missing, where they cannot measure.
Result<Perftest> find_perftest(const std::string& path);

enum class PerftestProgram : uint8_t {
  kWriteBandwidth,
  kWriteLatency,
  // ib_write_lat with so few messages that it shows whether any arrive, and no more.
  kProbe,
  // Of GPU memory, for which ib_write_lat has no CUDA: its CPU waits for a change of the memory.
  kSendLatency,
};

const char* name_of(PerftestProgram program);  // "ib_write_bw"
const std::string& path_of(const Perftest& perftest, PerftestProgram program);

inline constexpr uint64_t kPerftestBandwidthBytes = uint64_t{4} << 20;
inline constexpr uint64_t kPerftestLatencyBytes = 8;

// What the plugin would use on a port, by the variables of NCCL (docs/environment.md).
struct PerftestFabric {
  std::optional<int> gid_index;  // nothing: by LID, as on InfiniBand within a subnet
  int service_level = -1;        // -1: perftest's default, 0
  int traffic_class = -1;        // -1: perftest's default, 0
  int pkey_index = 0;
  bool uses_dmabuf = false;  // for memory of a GPU; else nvidia-peermem registers it
};

// With `by_gid`, a port of InfiniBand is addressed by its GID, too, as where the other end needs
// it: either both ends of a measurement have a GID, or none. kSystem where the port has no GID that
// the plugin would use.
Result<PerftestFabric> perftest_fabric(const Host& host, const BurnInEnd& one, bool by_gid = false);

// The arguments of the end that listens at the TCP port; the other end has the address of the
// first behind them. A GPU of the end needs its number in CUDA.
std::vector<std::string> perftest_arguments(PerftestProgram program, const Perftest& perftest,
                                            const BurnInEnd& one, const PerftestFabric& fabric,
                                            int tcp_port);

}  // namespace gdr::tools::doctor
