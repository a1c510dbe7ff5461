// The software HCA of this process: what all its open devices share. It owns the membership of the
// fabric, the engine, the faults, and the tables of QPs, CQs and registrations.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "softhca/datapath/engine.h"
#include "softhca/datapath/queue_pair.h"
#include "softhca/fabric/gpu_memory.h"
#include "softhca/fabric/index_pool.h"
#include "softhca/fabric/process.h"
#include "softhca/model/faults.h"
#include "softhca/verbs/import_table.h"
#include "softhca/verbs/locked_memory.h"
#include "softhca/verbs/page_watch.h"

namespace softhca {

struct Context;
struct Cq;
struct Device;
class Domain;
struct Registration;

// What all devices that this process has opened share; one per process.
class Runtime final : private FaultTarget {
 public:
  // Joins the fabric at the first call. Returns null when that failed; the reason goes to stderr.
  // After a fork the child gets a Runtime of its own. It is never destroyed.
  static Runtime* get();

  Process& process() { return process_; }
  const Config& config() const { return process_.config(); }
  bool orphaned() const { return process_.orphaned(); }
  Engine& engine() { return engine_; }
  Faults& faults() { return faults_; }
  GpuMemory& gpu() { return gpu_; }
  LockedMemory& locked_memory() { return locked_memory_; }
  // Null unless the configuration wants stale registrations to fail. The first call makes it.
  PageWatch* page_watch(const PageWatch::Lost& lost);

  // One Device per configured device; they are never destroyed.
  const std::vector<Device*>& devices() const { return devices_; }

  // Pollers and event readers look objects up here while others come and go.
  ObjectTable<QueuePair>& qps() { return qps_; }
  ObjectTable<Cq>& cqs() { return cqs_; }
  // Takes an entry of the arena's table of regions; -1 when there is no room.
  int take_registration();
  void give_registration(uint32_t index) { mr_indices_.give(index); }
  // Makes a key that differs from the index's last 255 ones. It is not 0.
  uint32_t make_key(uint32_t index);
  // By their handles: ibv_pd::handle and ibv_mr::handle.
  ImportTable<Domain>& domains() { return domains_; }
  ImportTable<Registration>& registrations() { return registrations_; }

  // Open contexts get the events of their device's ports. The first one starts the faults' clock.
  void add_context(Context* context);
  void remove_context(Context* context);

 private:
  explicit Runtime(Process& process);
  ~Runtime() = delete;

  static void forget_after_fork();
  static void leave_at_exit();

  // FaultTarget.
  void set_port_state(uint32_t device, uint32_t number, ibv_port_state state) override;
  void fail_qps(uint32_t device, uint32_t number) override;
  void set_gid(uint32_t device, uint32_t number, uint32_t index, const GidEntry& entry) override;
  void set_lid(uint32_t device, uint32_t number, uint16_t lid) override;
  void report(uint32_t device, uint32_t number, ibv_event_type event) override;
  void fail_device(uint32_t device, bool removed, bool silent) override;
  void wake() override;
  void silence_qps(uint32_t device, uint32_t number);
  void stop_qps(uint32_t device, uint32_t number, int event);

  Process& process_;
  GpuMemory gpu_;
  LockedMemory locked_memory_;
  Faults faults_;
  Engine engine_;
  std::vector<Device*> devices_;
  ObjectTable<QueuePair> qps_{kMaxQps};
  ObjectTable<Cq> cqs_{kMaxCqs};
  IndexPool mr_indices_{kMaxMrs};
  std::vector<uint8_t> key_generations_ =
      std::vector<uint8_t>(kMaxMrs);  // each its index's owner's
  ImportTable<Domain> domains_;
  ImportTable<Registration> registrations_;
  std::once_flag page_watch_made_;
  PageWatch* page_watch_ = nullptr;
  std::mutex contexts_mutex_;
  std::vector<Context*> contexts_;
};

}  // namespace softhca
