// One transfer through the staging area: it is cut into pieces that are contiguous at both ends and
// fit into a chunk, and several of them are in progress at a time.
//
// A write copies a piece from local memory into a chunk, then from the chunk into the peer's
// memory; a read goes the other way. The step at the peer's end is a copy by process_vm_writev, or
// a request to the peer's engine (datapath/copy_requests.h).
#pragma once

#include <cstdint>

#include "softhca/datapath/copy_requests.h"
#include "softhca/datapath/queue_pair.h"
#include "softhca/datapath/segments.h"

namespace softhca {

class StagedCopy {
 public:
  // Starts over with a new transfer. Both lists must stay unchanged until it is finished.
  void begin(const SegmentList& local, const SegmentList& remote, bool fetch);

  enum class State { kBusy, kDone, kFailed };
  // Moves the transfer on without waiting. After kDone and kFailed none of it touches memory.
  State advance(QueuePair& qp);
  // Waits until none of it touches memory any more.
  void abort(QueuePair& qp);

 private:
  // What happens to a piece; kLocal and kRemote are the copies between a chunk and either end.
  enum class Stage { kIdle, kLocal, kRemoteWaiting, kRemote, kLocalWaiting };
  struct Piece {
    Stage stage = Stage::kIdle;
    uint64_t chunk;
    uint64_t local;
    uint64_t remote;
    uint64_t bytes;
    uint64_t sequence;
    int32_t local_gpu;
    int32_t remote_gpu;
    bool ticketed;  // `ticket` names a CUDA copy of the local step
    GpuTicket ticket;
    CopyRequest* request;  // of the remote step; null where this process copies itself
  };
  static constexpr uint32_t kPieces = 4;

  bool next_piece(QueuePair& qp, Piece& piece);
  bool advance_piece(QueuePair& qp, Piece& piece);
  bool start_local(QueuePair& qp, Piece& piece);
  bool local_done(Piece& piece);
  bool start_remote(QueuePair& qp, Piece& piece);
  // kBusy until the owner has served the request.
  State remote_state(QueuePair& qp, Piece& piece);
  bool drain(QueuePair& qp);
  void finish(QueuePair& qp, Piece& piece);

  const SegmentList* local_ = nullptr;
  const SegmentList* remote_ = nullptr;
  bool fetch_ = false;
  bool failed_ = false;
  // How far the lists are cut into pieces.
  uint32_t local_index_ = 0;
  uint32_t remote_index_ = 0;
  uint64_t local_done_ = 0;
  uint64_t remote_done_ = 0;
  uint32_t undone_polls_ = 0;
  uint64_t made_ = 0;      // pieces begun
  uint64_t finished_ = 0;  // pieces finished, in order where the target is host memory
  Piece pieces_[kPieces];
};

}  // namespace softhca
