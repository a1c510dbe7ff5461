// What the two ends of a connection agree on about registrations of GPU memory, and which of them
// are NCCL's own buffers. docs/gpu-memory.md has the rules.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace gdr::transport {

// An allocation of GPU memory as the CUDA driver knows it (cuMemGetAddressRange).
struct GpuAllocation {
  uintptr_t address = 0;
  size_t bytes = 0;

  // Returns the allocation that contains the region, which is memory of that CUDA device; the
  // region itself if the driver knows none.
  static GpuAllocation containing(const GpuAllocation& region, int device);
};

// One end's view of a connection. NCCL registers two kinds of GPU memory on a comm, and nothing in
// the call distinguishes them:
// - Its own buffers, right after connect or accept (src/transport/net.cc: sendProxyConnect,
//   recvProxyConnect). They are parts of one allocation, and NCCL ends the job where one is
//   refused.
// - Users' buffers, later (net.cc: sendProxyRegBuffer, recvProxyRegBuffer), each an allocation of
//   its own. NCCL goes on without those that are refused. But each end decides for itself whether a
//   buffer is registered, and sends or expects other message sizes then (src/enqueue.cc: nsteps of
//   a registered operation), so that data is silently wrong where only one end accepts.
// Traffic and the number of registrations differ between the ends, so that neither may decide. What
// decides is the same at both: where either end stages NCCL's own buffers, both decline users'
// buffers; elsewhere both accept them.
//
// Thread-safe.
class RegistrationAgreement {
 public:
  // Held by the registrations of NCCL's own buffers. An allocation is NCCL's while one lives.
  using Own = std::shared_ptr<const GpuAllocation>;
  // Sends a kMemory frame with these flags (wire::Memory) to the peer. Called without a lock of
  // this class.
  using Send = std::function<void(uint32_t flags)>;

  // The peer's watcher thread answers, so that the network alone decides how long an answer takes.
  static constexpr std::chrono::milliseconds kPatience{2000};

  // stages: known from the settings, before any registration.
  explicit RegistrationAgreement(bool stages, std::chrono::milliseconds patience = kPatience)
      : patience_(patience), stages_(stages) {}
  RegistrationAgreement(const RegistrationAgreement&) = delete;
  RegistrationAgreement& operator=(const RegistrationAgreement&) = delete;

  // Returns what to keep with the registration of one of NCCL's own buffers, null for a user's
  // buffer. Own are the first registration, and those in an allocation that has a registration.
  // relayed: also another allocation of the first one's size is NCCL's own. With PXN a process
  // sends for other ranks of its machine over one shared comm, and has a buffer for each (net.cc:
  // sharedNetBuffersInit), all of one size.
  Own claim(const GpuAllocation& allocation, bool relayed);

  // Notes how one of NCCL's own buffers was registered, and lets the peer know what is new.
  void note_own(bool staged);
  // Whether this end stages.
  bool stages() const;
  // Returns whether the peer stages. Where its answer is outstanding, asks it and waits for
  // `patience`; then takes the last that it sent, or unset if it sent nothing. NCCL registers
  // users' buffers only after both ends have registered its own and met in its bootstrap network,
  // so that the answer is final.
  std::optional<bool> peer_stages();

  // Opens the channel to the peer. peer_stages: what its part of the handshake says.
  void open(bool peer_stages, Send send);
  // Takes the flags of the peer's kMemory frame. An end asks when NCCL has registered its own
  // buffers there, so that a question is as final as an answer. Watcher thread.
  void on_frame(uint32_t flags);
  // Ends every wait for the peer: no frame comes any more, and what is known is final.
  void close();

 private:
  const std::chrono::milliseconds patience_;
  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable answered_;
  std::vector<std::weak_ptr<const GpuAllocation>> own_;
  Send send_;
  bool stages_;
  bool announced_ = false;    // the peer was sent this end's state
  std::optional<bool> peer_;  // whether the peer stages, as far as known
  bool final_ = false;        // it answered, or did not in time
};

}  // namespace gdr::transport
