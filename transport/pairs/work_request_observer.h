// To whom a connection's work requests are reported: a profiler, for example. The transport knows
// no more of it than two functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gdr::transport {

// One unit of work that the observer sees: a chunk that a sender writes, or a buffer that a
// receiver waits for.
struct ObservedWorkRequest {
  int rail;     // of this end of the connection
  uint64_t id;  // number of the receiver's buffer, from 0, the same at both ends
  // Senders: the ibv_wr_opcode of the write that carries the data. Receivers: the ibv_wc_opcode of
  // the completions that end it.
  int opcode;
  // Senders: the QP of the write. Receivers: that of the clear-to-send, as the data may arrive over
  // several.
  uint32_t qp_number;
  size_t bytes;  // senders: of the chunk; receivers: room in the buffer
};

// Both functions are called by the thread that calls isend, irecv and test, or that closes the
// comm; they must neither block nor throw. Null: nobody observes.
struct WorkRequestObserver {
  // `parent` is what the owner of the comm named as the origin of the message, never null. Returns
  // what completed() is to be called with, once; null: completed() is not called.
  void* (*posted)(void* context, void* parent, const ObservedWorkRequest& work) = nullptr;
  // The work has completed, or will not, since the connection has failed or is closed.
  void (*completed)(void* context, void* event) = nullptr;
  void* context = nullptr;  // handed to both

  // Ends what posted() has returned.
  void end(void* event) const {
    if (event != nullptr) completed(context, event);
  }
};

}  // namespace gdr::transport
