// This process as a member of the fabric: its configuration, its arena in shared memory, and the
// peers that it has mapped. Engine, faults and verbs objects belong to verbs/runtime.h above it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "softhca/fabric/arena.h"
#include "softhca/fabric/index_pool.h"
#include "softhca/fabric/peer.h"
#include "softhca/fabric/registry.h"
#include "softhca/fabric/staging_area.h"
#include "softhca/model/config.h"
#include "softhca/model/counters.h"

namespace softhca {

// The membership of this process in the fabric; there is one until a fork gives the child its own.
class Process {
 public:
  // Reads SOFTHCA_CONFIG, claims a slot of the fabric and creates the arena and the sysfs tree in
  // it. Fails with kInvalidUsage for a wrong configuration and with kSystem when /dev/shm is full,
  // not writable, or the fabric has no free slot. The object is never destroyed: threads of the
  // application may still be inside the library at exit.
  static gdr::Result<Process*> join();
  // Marks this process as gone for its peers and removes its files. Nothing is unmapped.
  void leave();

  // A forked child does not have its parent's shared memory (MADV_DONTFORK). Objects made before
  // the fork are dead in it: they must fail, or do nothing, instead of touching the arena.
  void mark_orphaned() { orphaned_.store(true); }
  bool orphaned() const { return orphaned_.load(); }

  const Config& config() const { return config_; }
  // The process's folder in /dev/shm.
  const std::string& folder() const { return folder_; }
  uint32_t slot() const { return self_->slot(); }
  Peer& self() { return *self_; }
  const Peer& self() const { return *self_; }
  const Arena& arena() const { return self_->arena(); }
  ArenaHeap& heap() { return heap_; }
  StagingArea& staging() { return staging_; }
  IndexPool& event_indices() { return event_indices_; }
  // An unbound datagram socket, from which event queues are signalled.
  int signal_socket() const { return signal_socket_; }

  // Returns the process that holds `slot` now, mapping its arena at the first call, or null when
  // the slot is free. The mapping lives as long as the result.
  std::shared_ptr<Peer> peer(uint32_t slot);

  // Calls visit(Peer&) for every other process that something here is connected to.
  template <class Visit>
  void for_each_peer(Visit visit) {
    std::lock_guard lock(peers_mutex_);
    for (auto& [slot, weak] : peers_) {
      if (std::shared_ptr<Peer> peer = weak.lock()) visit(*peer);
    }
  }

  // `number` counts from 1.
  SharedPort& port(uint32_t device, uint32_t number) const {
    return arena().header().ports[device][number - 1];
  }

  // Null unless the configuration has a `counters_file`, which is written when the process leaves.
  Counters* counters() const { return counters_.get(); }

  // Spreads QPs over the copy lanes of a GPU: each QP that copies takes the next hint.
  uint32_t next_lane_hint() { return lane_hints_.fetch_add(1); }

 private:
  Process(Config config, Registry registry, std::shared_ptr<Peer> self);
  ~Process() = delete;

  void fill_ports();
  void reserve_gids();

  Config config_;
  Registry registry_;
  std::string folder_;
  uint64_t instance_;  // peers read it here, to see that the pid was not reused (fabric/peer.cc)
  std::shared_ptr<Peer> self_;
  ArenaHeap heap_;
  StagingArea staging_;
  int signal_socket_;
  std::unique_ptr<Counters> counters_;
  IndexPool event_indices_{kMaxEventQueues};
  std::atomic<uint32_t> lane_hints_{0};
  std::atomic<bool> orphaned_{false};
  std::mutex peers_mutex_;
  std::map<uint32_t, std::weak_ptr<Peer>> peers_;
};

}  // namespace softhca
