// What all connections of a process have moved since its transport was made, for metrics: sums that
// never decrease, also where connections close.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "transport/link/peer_link.h"
#include "transport/recovery/recovery.h"

namespace gdr::transport {

enum class DataDirection : uint8_t { kSent, kReceived };
inline constexpr int kDataDirections = 2;

// A port of this process.
struct RailName {
  std::string hca;  // "mlx5_0"
  int port = 0;
  auto operator<=>(const RailName&) const = default;
};

// The data that went over one port.
struct RailSums {
  struct Moved {
    uint64_t bytes = 0;
    uint64_t messages = 0;  // RDMA messages: a message of NCCL's, or each chunk of a split one
  };
  std::array<Moved, kDataDirections> moved;  // by DataDirection
  uint64_t losses = 0;                       // of queue pairs that recover
  uint64_t returns = 0;                      // of those to use
};

struct ProcessSums {
  uint64_t connections = 0;            // that are open now
  uint64_t failed = 0;                 // connections, so far
  uint64_t stalls = 0;                 // episodes that the watchdog has logged
  std::map<RailName, RailSums> rails;  // those of connections, open or closed
};

// Thread-safe. The data path does not come by: what it counts is read where it counts it.
class ProcessCounters {
 public:
  ProcessCounters() = default;
  ProcessCounters(const ProcessCounters&) = delete;
  ProcessCounters& operator=(const ProcessCounters&) = delete;

  // From here on the connection's counters are read, which `recovery` has. rails: its own ports.
  void open(std::shared_ptr<const PeerLink> link, std::shared_ptr<const Recovery> recovery,
            const std::vector<RailName>& rails, DataDirection direction);
  // Takes its counters for good. Nothing where it is not open. Allocates nothing.
  void close(const PeerLink* link);
  uint64_t connections() const;

  void count_stall() { stalls_.fetch_add(1, std::memory_order_relaxed); }

  ProcessSums read();

 private:
  struct Open {
    std::shared_ptr<const PeerLink> link;
    std::shared_ptr<const Recovery> recovery;
    std::vector<RailName> rails;
    DataDirection direction;
  };

  // Adds what the connection has counted so far to `sums`, which has its rails.
  static void add(const Open& open, ProcessSums* sums);

  std::atomic<uint64_t> stalls_{0};
  mutable std::mutex mutex_;  // guards all that follows
  std::map<const PeerLink*, Open> open_;
  ProcessSums closed_;  // of connections that are closed; the rails of all
};

}  // namespace gdr::transport
