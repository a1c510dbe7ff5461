// The flushes of a connection: loopback RDMA reads of received data.
//
// A receiver's completion may reach the CPU before the data reaches the GPU, since both travel
// different PCIe paths. PCIe orders a read behind earlier writes on the same path, so that once the
// HCA has read one byte back, all of its earlier writes are in GPU memory (NCCL's net_ib does the
// same: src/transport/net_ib, ncclIbIflush).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include "transport/data/connection.h"
#include "transport/data/request.h"
#include "transport/memory/memory_handle.h"
#include "transport/memory/registered_block.h"

namespace gdr::transport {

// A read by one HCA orders the writes of that HCA alone, so that each rail that has carried data is
// read over. A rail that is lost is not: its last write was posted long before both ends had agreed
// on the loss, which takes far longer than a write over PCIe. One read over a rail that is left
// then takes the place of its own.
class Flushes {
 public:
  static constexpr int kRequests = 32;  // in flight

  // Of a receiving comm, which outlives it.
  explicit Flushes(Comm& comm)
      : connection_(comm.connection()), requests_(&comm, RequestKind::kFlush) {}

  // Before the data path begins and once the peer is known: flushes read over the rail, whose HCA
  // may register GPU memory. Its QP is created and connected to itself at once, or, if it stands
  // by, when data has come over it. Returns what could not be created; one that could only not be
  // connected is connected when it is first read over.
  Status add_rail(uint32_t rail, bool stands_by);

  // Data has arrived over the rail.
  void note_data(uint32_t rail) { unread_ |= 1u << rail; }
  // Starts the reads of one flush of memory that `memory` registers. Without a rail to read over,
  // start_rail() does that. Returns false when the connection has failed.
  bool post(const void* address, const MemoryHandle& memory, Request** request);
  // Takes the completion of a read. If it failed, so do the pairs of its rail; the connection fails
  // where another rail would not help, or reads of the same flush fail again and again.
  void on_read(const WorkId& id, const ibv_wc& wc);
  // No pair of the rail is left: its reads are posted again over another one, or wait for one.
  void stop_rail(uint32_t rail);
  // Data arrives over the rail again, or may: it is read over from here on, and so is what waits.
  void start_rail(uint32_t rail);
  // Takes back a request that is complete.
  void give_back(Request* request) { requests_.give_back(request); }

 private:
  struct Rail {
    uint32_t index;
    bool is_lost = false;
    bool in_error = true;  // the QP has to be connected, or made
    uint32_t epoch = 0;    // of the reads that count
    uint32_t reads = 0;    // of this epoch that are outstanding
    Pages<uint64_t> target{};
    verbs::UniqueMr target_mr{};  // destroyed before target
    verbs::UniqueQp qp{};         // destroyed before both
  };
  struct Outstanding {
    Request* request;       // null: none. Its data is the address that is read
    uint32_t rails;         // bit per rail that is being read over; 0: it waits for a rail
    uint32_t failures = 0;  // reads of it
    std::chrono::steady_clock::time_point failing_since{};
  };

  Rail* find(uint32_t rail);
  Status make(Rail& rail) const;
  Status connect(Rail& rail, const wire::RailAddress& address) const;
  Status connect_again(Rail& rail) const;
  bool may_read(const Rail& rail, const Request& flush) const;
  bool read(Rail& rail, size_t index);
  int post_read(const Rail& rail, size_t index);
  void read_over_any(size_t index);
  void lose(Rail& rail, ibv_wc_status status);
  void on_failed_read(Rail& rail, Outstanding& flush, const ibv_wc& wc);
  bool fails_everywhere(Outstanding& flush);
  [[gnu::cold]] bool fail(const char* what);  // returns false

  Connection& connection_;
  uint32_t unread_ = 0;  // bit per rail: data has arrived since the last read over it was posted
  RequestPool<kRequests> requests_;
  std::vector<Rail> rails_;
  std::array<Outstanding, kRequests> outstanding_{};
};

}  // namespace gdr::transport
