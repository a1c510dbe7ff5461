// One transfer through staging: pieces that are contiguous at both ends, several under way.
#pragma once

#include <cstdint>

#include "softhca/datapath/work_request.h"
#include "softhca/gpu/copier.h"

namespace softhca {

struct Qp;

class Bounce {
 public:
  // `lists` has to stay as it is until done().
  void begin(const SegmentList& local, const SegmentList& remote, bool fetch);

  enum class State { kBusy, kDone, kFailed };
  State advance(Qp& qp);
  // Waits until nothing of it touches memory any more.
  void abort(Qp& qp);

 private:
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
    bool ticketed;
    GpuTicket ticket;
    CopyRequest* request;
  };
  static constexpr uint32_t kPieces = 4;
  static constexpr uint32_t kFailureCheck = 1 << 14;

  bool next_piece(Qp& qp, Piece& piece);
  bool advance_piece(Qp& qp, Piece& piece);
  bool start_local(Qp& qp, Piece& piece);
  bool local_done(Piece& piece);
  bool start_remote(Qp& qp, Piece& piece);
  // Busy until the owner has served the request.
  State remote_state(Qp& qp, Piece& piece);
  bool drain(Qp& qp);
  void finish(Qp& qp, Piece& piece);

  const SegmentList* local_ = nullptr;
  const SegmentList* remote_ = nullptr;
  bool fetch_ = false;
  bool failed_ = false;
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
