// This process on the fabric: what all its open devices share.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "softhca/fabric/arena.h"
#include "softhca/fabric/peer.h"
#include "softhca/fabric/registry.h"
#include "softhca/fabric/staging_area.h"
#include "softhca/gpu/process_gpu_memory.h"
#include "softhca/model/config.h"

namespace softhca {

class Engine;
class Faults;
struct Qp;
struct Cq;
struct Context;
struct Device;

// Gives out indices of one table, each as late as possible after it was last used.
class IndexPool {
 public:
  explicit IndexPool(uint32_t count) : used_(count) {}
  // -1 when all are taken.
  int take();
  void give(uint32_t index);

 private:
  std::mutex mutex_;
  std::vector<bool> used_;
  uint32_t next_ = 0;
};

class Process {
 public:
  // Joins the fabric at the first call. Null when that failed; the reason went to stderr. After a
  // fork the child gets one of its own.
  static Process* get();
  // Without joining; null when this process has not (or is a child of one that did).
  static Process* current();

  // True in a child of the process that made this: its shared memory is not there.
  bool orphaned() const { return current() != this; }

  const Config& config() const { return config_; }
  const std::string& folder() const { return folder_; }
  uint32_t slot() const { return self_->slot(); }
  Peer& self() { return *self_; }
  const Arena& arena() const { return self_->arena(); }
  ArenaHeap& heap() { return heap_; }
  Engine& engine() { return *engine_; }
  Faults& faults() { return *faults_; }
  GpuMemory& gpu() { return gpu_; }
  Staging& staging() { return staging_; }
  int signal_socket() const { return signal_socket_; }

  // The process that holds a slot now, or null. The mapping lives as long as the result.
  std::shared_ptr<Peer> peer(uint32_t slot);

  // Every other process that something here is connected to.
  template <class Visit>
  void for_each_peer(Visit visit) {
    std::lock_guard lock(peers_mutex_);
    for (auto& [slot, weak] : peers_) {
      if (std::shared_ptr<Peer> peer = weak.lock()) visit(*peer);
    }
  }

  SharedPort& port(uint32_t device, uint32_t number) {
    return arena().header().ports[device][number - 1];
  }

  IndexPool qp_indices{kMaxQps};
  IndexPool cq_indices{kMaxCqs};
  IndexPool mr_indices{kMaxMrs};
  IndexPool event_indices{kMaxEventQueues};
  // Null where there is none. Read by pollers while QPs come and go.
  std::atomic<Qp*> qps[kMaxQps] = {};
  std::atomic<Cq*> cqs[kMaxCqs] = {};
  // Registrations need distinct generations: the count of all made so far.
  std::atomic<uint32_t> registrations{0};
  std::atomic<uint32_t> domains{0};     // protection domains made so far; their handles
  std::atomic<uint32_t> lane_hints{0};  // given to QPs so far

  // Made by devices_of().
  std::mutex devices_mutex;
  std::vector<Device*> devices;

  // Open contexts, for events of their ports.
  void add_context(Context* context);
  void remove_context(Context* context);
  // Sets a port's state and tells every context of the device.
  void set_port_state(uint32_t device, uint32_t number, ibv_port_state state);
  // Puts every QP of a port in error, as a failing device does.
  void fail_qps(uint32_t device, uint32_t number);

 private:
  Process(Config config, Registry registry, std::shared_ptr<Peer> self);
  ~Process() = delete;  // the application's threads may still be in here at exit

  static gdr::Result<Process*> join();
  static void leave_at_exit();
  void fill_ports();

  Config config_;
  Registry registry_;
  std::string folder_;
  uint64_t instance_;  // peers read it here
  std::shared_ptr<Peer> self_;
  ArenaHeap heap_;
  GpuMemory gpu_{*this};
  Staging staging_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Faults> faults_;
  int signal_socket_;
  std::mutex peers_mutex_;
  std::map<uint32_t, std::weak_ptr<Peer>> peers_;
  std::mutex contexts_mutex_;
  std::vector<Context*> contexts_;
};

}  // namespace softhca
