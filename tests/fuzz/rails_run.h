// A connection of several rails, driven by a script: both data paths, what their watcher does, and
// what is checked of them. Nothing happens by itself, and the clock only moves as the script says.
#pragma once

#include <array>
#include <chrono>
#include <vector>

#include "tests/fuzz/comm_run.h"
#include "transport/data/slow_paths.h"

namespace gdr::fuzz {

// Rails of each end, kRails in all; those on standby come last.
struct RailsShape {
  int active;
  int standby;
  uint32_t max_message_bytes = 1u << 30;  // of a port
};

struct RailsRun {
  static constexpr size_t kRoom = 136 << 10;  // of a buffer: messages of up to three chunks
  static constexpr size_t kMaxBuffers = 8;
  static constexpr int kRails = 3;  // of each end, and pairs

  // A grouped receive, and what was sent into its buffers.
  struct Receive {
    transport::Request* request;
    size_t first;  // of its buffers
    int count;
    int sent = 0;
    std::array<const char*, 3> data{};  // by tag; null: nothing was sent
    std::array<size_t, 3> bytes{};
    bool done = false;
  };

  explicit RailsRun(const RailsShape& shape);

  // ---- data paths
  void receive(int count);
  void send(size_t bytes, int tag);
  void flush();
  void test_receiver();
  void test_sender();
  // Reads completions even where no request is outstanding, as irecv() and isend() do it.
  void poll(bool at_sender);
  // ---- watchers
  void exchange();
  void tick(std::chrono::milliseconds after);
  void set_port(bool at_sender, uint32_t rail, bool active);
  void report(bool at_sender, uint32_t rail, ibv_async_event event);
  // ---- what goes wrong
  // Null where the QP was destroyed.
  void* queue_pair(bool at_sender, uint32_t pair) const;
  uint32_t qp_number(bool at_sender, uint32_t pair) const;

  // Lets everything work again, sends what is missing, and checks that all becomes complete, or
  // that the connection has failed for a reason.
  void finish();

  transport::Connection& connection(bool at_sender) const {
    return at_sender ? pair.sender->connection() : pair.receiver->connection();
  }
  transport::Recovery& recovery(bool at_sender) const { return *connection(at_sender).recovery(); }

  transport::ManualClock clock;
  transport::RailsPair pair;
  // As they were connected: a lost pair may be without a QP.
  const transport::wire::EndPoint sending_end = transport::end_of(*pair.sender);
  const transport::wire::EndPoint receiving_end = transport::end_of(*pair.receiver);
  transport::wire::Tables& sender_tables = transport::tables_of(*pair.sender);
  transport::wire::Tables& receiver_tables = transport::tables_of(*pair.receiver);
  PageBuffer from;
  PageBuffer to;
  // The peer has broken the protocol, or a work request has failed in a way that ends every
  // connection: what becomes of the data is not judged.
  bool forged = false;
  // Bits of the pairs that something went wrong with; of all: the connection may fail.
  uint32_t touched = 0;
  static constexpr uint32_t kAllPairs = (1u << kRails) - 1;

 private:
  using Slots = std::array<transport::wire::ClearToSend, transport::wire::kSlots>;

  template <class Call>
  void call_sender(Call call);
  bool posts_chunks() const;  // since the last forget_posted()
  void check_targets(const Slots& slots) const;
  void check_data(const Receive& receive, const transport::Outcome& outcome) const;
  void note(bool alive, bool at_sender);
  void check_link(bool at_sender);
  void send_what_is_missing();
  bool is_all_done() const;

  transport::SlowPaths slow_;
  // The slots as they were when isend() took a message and posted nothing: it is held for its
  // group, or waits for a pair.
  std::vector<Slots> slots_of_held_;
  size_t buffers_ = 0;
  size_t current_ = 0;  // the receive into which the next message goes
  std::vector<Receive> receives_;
  std::vector<transport::Request*> sends_;
  std::vector<transport::Request*> flushes_;
};

}  // namespace gdr::fuzz
