// The GID tables of an HCA's ports. A table of mlx5 has 256 entries, and reading one costs a system
// call for each entry, and several files in sysfs on older kernels; it changes only with the
// addresses of the port's network interface. So it is read once, and again after an event that may
// have changed it.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "base/result.h"
#include "drivers/verbs/verbs_api.h"
#include "transport/device/gid_selection.h"
#include "transport/device/port.h"

namespace gdr::transport {

// Thread-safe: connections are set up in several threads, while the watcher reports events.
class GidCache {
 public:
  // Neither is owned.
  GidCache(const verbs::Api& api, ibv_context* context) : api_(api), context_(context) {}

  // Returns the GID to use on a port, whose present state is `state`: select_gid() on RoCE,
  // select_infiniband_gid() else. Call it for every connection: entries move within the table when
  // a link goes down and comes back. An event may be late, or never be delivered to this process,
  // so the entry that a kept table leads to is queried before it is returned, and the table is read
  // again where the two differ or where nothing suits. kInvalidUsage or kSystem, with the port's
  // name, if no GID suits.
  Result<GidEntry> resolve(int port, const PortState& state, const GidPreference& preference);

  // Returns the present index of a GID that a port had: the former one, if the GID is still there,
  // since a VLAN interface with its parent's MAC address makes two entries of one GID and type.
  // None where the port has the GID no more.
  std::optional<int> find(int port, const PortState& state, const GidEntry& former);

  // Makes the next resolve() of each port read its table again. Never blocks.
  void drop() { generation_.fetch_add(1); }

 private:
  struct Table {
    uint64_t generation;
    std::vector<GidEntry> entries;
  };

  const std::vector<GidEntry>& read_again(int port, const PortState& state);
  std::vector<GidEntry> read(int port, const PortState& state) const;
  bool is_unchanged(int port, const GidEntry& known) const;

  const verbs::Api& api_;
  ibv_context* context_;
  std::atomic<uint64_t> generation_{0};  // how often drop() was called
  std::mutex mutex_;
  std::map<int, Table> tables_;  // by port; guarded by mutex_
};

}  // namespace gdr::transport
