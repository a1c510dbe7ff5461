// What the nodes of a cluster should have in common, as JSON to be compared.
//
//   {"format": "nccl-gdr-fingerprint", "version": 1, "host": "node17",
//    "software": {"kernel": "6.8.0-60-generic", "NVIDIA driver": "570.133.20", ...},
//    "settings": {"NCCL_IB_TC": "106"},
//    "gpus": [{"name": "GPU0", "pcie_width": "x16"}],      what the links run at now
//    "hcas": [{"name": "mlx5_0", "firmware": "28.41.1000", "pcie_link": "32 GT/s x16", ...}],
//    "topology": {...}}          as `nccl-gdr topo --json` prints it, or null
//
// It has no times, counters or process ids, so that it stays the same while the machine does. Names
// and addresses of devices and GUIDs are in it for people; they differ between nodes that are
// alike, and compare.h leaves them out.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace gdr::tools::doctor {

struct Host;

inline constexpr char kFingerprintFormat[] = "nccl-gdr-fingerprint";
inline constexpr int kFingerprintVersion = 1;

// A property of the machine, by its name for people. "none" where it is known to be absent; nothing
// where it could not be looked at.
using Properties = std::map<std::string, std::optional<std::string>>;

// The releases of libraries as the loader finds them for this process: libcuda, libibverbs, NCCL.
// Loads them, and initialises none.
Properties loaded_libraries();

// Returns the release of rdma-core that a file of libibverbs is from: "44.0" for
// "libibverbs.so.1.14.44.0", whose last numbers are rdma-core's. Otherwise the file's name.
std::string rdma_core_release(const std::string& file);
// Returns "2.27.3" for 22703, as ncclGetVersion() has it: since 2.9, 10000 x major + 100 x minor.
std::string nccl_release(int code);

// Returns the release of a file of this project's plugin, "found" where the file does not show it.
std::string plugin_release(const std::string& file);

// Kernel, operating system, drivers and firmware of the machine, by its files.
Properties software_of(const Host& host);

// The whole, with libraries where the host is live.
std::string to_fingerprint(const Host& host);

}  // namespace gdr::tools::doctor
