// What the watchdog knows about a connection's copies between GPU and host memory. They can
// deadlock with other users of CUDA in the process (docs/adr/0007), so that a connection without
// progress should name them where they are the likely cause.
#pragma once

#include <atomic>
#include <cstdint>

namespace gdr::transport {

// The comm's thread writes it, the watcher reads it; all accesses are relaxed, as no other data
// depends on them.
class CopyMonitor {
 public:
  // Marks a section in which the comm's thread may be inside a call of the CUDA driver.
  class DriverCall {
   public:
    explicit DriverCall(CopyMonitor& monitor) : crossings_(monitor.crossings_) { count(); }
    ~DriverCall() { count(); }
    DriverCall(const DriverCall&) = delete;
    DriverCall& operator=(const DriverCall&) = delete;

   private:
    // Only one thread writes, so that no atomic increment is needed.
    void count() {
      crossings_.store(crossings_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    std::atomic<uint64_t>& crossings_;
  };

  // Whether the oldest copy was incomplete when it was last queried.
  void set_awaits_copy(bool awaits) { awaits_copy_.store(awaits, std::memory_order_relaxed); }

  // ---- watcher thread
  // Remembers the state, for likely_cause() to compare with. Called about once a second.
  void on_tick() { seen_crossings_ = crossings_.load(std::memory_order_relaxed); }
  // Why copies may be what a stalled connection waits for, as the end of a log line: begins with a
  // comma, or is empty.
  const char* likely_cause() const;

 private:
  std::atomic<uint64_t> crossings_{0};  // into and out of the driver; odd: inside
  std::atomic<bool> awaits_copy_{false};
  uint64_t seen_crossings_ = 0;  // watcher thread only
};

}  // namespace gdr::transport
