// The flushes of a connection whose rails may be lost.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include "transport/data/connection.h"
#include "transport/data/flush.h"
#include "transport/data/request.h"
#include "transport/memory/memory_handle.h"

namespace gdr::transport {

inline constexpr int kFlushRequests = 32;  // flushes in flight
using FlushRequests = RequestPool<kFlushRequests>;

// A read by one HCA orders the writes of that HCA alone, so that each rail that has carried data is
// read over. A rail that is lost is not: its last write was posted long before both ends had agreed
// on the loss, which takes far longer than a write over PCIe. One read over a rail that is left
// then takes the place of its own.
class SpreadFlushes {
 public:
  static constexpr int kRequests = kFlushRequests;

  // flushes: of the rails whose HCA may register GPU memory.
  SpreadFlushes(Connection& connection, std::vector<Flush> flushes, ServiceClass service);

  bool empty() const { return rails_.empty(); }
  // Data has arrived over the rail.
  void note_data(uint32_t rail) {
    carried_ |= 1u << rail;
    unread_ |= 1u << rail;
  }
  // Starts the reads of one flush, `index` of its pool, and sets request->pending. Without a rail
  // to read over, start_rail() does that. Returns false when the connection has failed.
  bool post(Request* request, size_t index, const void* address, const MemoryHandle& memory);
  // A read is complete.
  void on_read(const WorkId& id);
  // A read failed: so do the pairs of its rail. The connection fails where another rail would not
  // help, or reads of the same flush fail again and again.
  void on_failed_read(const ibv_wc& wc);
  // No pair of the rail is left: its reads are posted again over another one, or wait for one.
  void stop_rail(uint32_t rail);
  // Data arrives over the rail again, or may: it is read over from here on, and so is what waits.
  void start_rail(uint32_t rail);

  void destroy_queue_pairs();

 private:
  struct Rail {
    Flush flush;
    uint32_t epoch = 0;     // of the reads that count
    bool in_error = false;  // the QP has to be connected anew, or made
    uint32_t reads = 0;     // of this epoch that are outstanding
  };
  struct Outstanding {
    Request* request;  // null: none
    const void* address;
    const MemoryHandle* memory;
    uint32_t rails;         // bit per rail that is being read over; 0: it waits for a rail
    uint32_t failures = 0;  // reads of it
    std::chrono::steady_clock::time_point failing_since{};
  };

  Rail* find(uint32_t rail);
  bool may_read(const Rail& rail, const Outstanding& flush) const;
  bool read(Rail& rail, size_t index);
  bool reconnect(Rail& rail) const;
  void read_over_any(size_t index);
  void lose(Rail& rail, ibv_wc_status status);
  bool fails_everywhere(Outstanding& flush);

  Connection& connection_;
  const ServiceClass service_;
  std::vector<Rail> rails_;
  // Bit per rail: data has arrived over it that no completed read has ordered; and since the last
  // read over it was posted. A rail that carried data only while another one was lost is not read
  // over for ever.
  uint32_t carried_ = 0;
  uint32_t unread_ = 0;
  uint32_t lost_ = 0;  // bit per rail
  std::array<Outstanding, kRequests> outstanding_{};
};

}  // namespace gdr::transport
