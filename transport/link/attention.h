// What the data path of a connection has to look at beside its work.
#pragma once

#include <atomic>
#include <cstdint>

namespace gdr::transport {

// One word, so that a poll loads it once. Thread-safe.
class Attention {
 public:
  // Whether the link has failed or wants a probe, or the recovery has something for the data path.
  bool needs_attention() const { return load() != 0; }
  // Whether the link has failed or wants a probe.
  bool needs_care() const { return (load() & (kFailed | kProbe)) != 0; }
  bool failed() const { return (load() & kFailed) != 0; }
  bool probe_wanted() const { return (load() & kProbe) != 0; }
  // The peer's HCA answered the probe, or none can be posted; until then the link needs attention.
  void end_probe() { set(kProbe, false); }
  // The recovery has news for the data path, or waits for it to find queues empty; or not any more.
  void set_recovering(bool recovering) { set(kRecovering, recovering); }

 protected:
  static constexpr uint32_t kFailed = 1;
  static constexpr uint32_t kProbe = 2;
  static constexpr uint32_t kRecovering = 4;

  void set(uint32_t bit, bool on) {
    if (on) {
      bits_.fetch_or(bit, std::memory_order_acq_rel);
    } else {
      bits_.fetch_and(~bit, std::memory_order_acq_rel);
    }
  }

 private:
  uint32_t load() const { return bits_.load(std::memory_order_acquire); }

  std::atomic<uint32_t> bits_{0};
};

}  // namespace gdr::transport
