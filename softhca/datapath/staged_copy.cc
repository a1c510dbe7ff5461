#include "softhca/datapath/staged_copy.h"

#include <algorithm>
#include <thread>

#include "softhca/datapath/host_copy.h"
#include "softhca/fabric/staging_area.h"
#include "softhca/gpu/copier.h"

namespace softhca {

void StagedCopy::begin(const SegmentList& local, const SegmentList& remote, bool fetch) {
  *this = StagedCopy();
  local_ = &local;
  remote_ = &remote;
  fetch_ = fetch;
}

bool StagedCopy::next_piece(QueuePair& qp, Piece& piece) {
  if (failed_ || local_index_ == local_->count || remote_index_ == remote_->count) return false;
  uint64_t chunk = qp.process().staging().take();
  if (chunk == 0) return false;
  const Segment& local = local_->items[local_index_];
  const Segment& remote = remote_->items[remote_index_];
  piece = Piece();
  piece.chunk = chunk;
  piece.bytes = std::min({kChunkBytes, local.bytes - local_done_, remote.bytes - remote_done_});
  piece.local = local.address + local_done_;
  piece.remote = remote.address + remote_done_;
  piece.local_gpu = local.gpu;
  piece.remote_gpu = remote.gpu;
  piece.sequence = made_++;
  local_done_ += piece.bytes;
  remote_done_ += piece.bytes;
  if (local_done_ == local.bytes) ++local_index_, local_done_ = 0;
  if (remote_done_ == remote.bytes) ++remote_index_, remote_done_ = 0;
  return true;
}

// Starts the copy between this process's memory and the chunk. Returns false when it failed.
bool StagedCopy::start_local(QueuePair& qp, Piece& piece) {
  void* chunk = qp.process().arena().at<void>(piece.chunk);
  void* own = reinterpret_cast<void*>(piece.local);
  void* to = fetch_ ? own : chunk;
  const void* from = fetch_ ? chunk : own;
  piece.stage = Stage::kLocal;
  piece.ticketed = piece.local_gpu >= 0;
  if (!piece.ticketed) {
    copy_ordered(to, from, piece.bytes);
    return true;
  }
  GpuCopier& copier = *GpuCopier::get();
  gdr::Result<GpuTicket> ticket =
      copier.copy(copier.lane(piece.local_gpu, qp.lane_hint()), to, from, piece.bytes);
  if (ticket) piece.ticket = *ticket;
  piece.ticketed = ticket.has_value();
  return ticket.has_value();
}

bool StagedCopy::local_done(Piece& piece) {
  if (!piece.ticketed) return true;
  GpuCopier& copier = *GpuCopier::get();
  if (copier.done(piece.ticket)) return true;
  if (++undone_polls_ % copier.kPollsPerFailureCheck == 0 && copier.failure(piece.ticket.lane)) {
    failed_ = true;
    return true;
  }
  return false;
}

// Starts the copy between the chunk and the peer's memory. Returns false when it failed; leaves the
// stage unchanged when it has to be tried again.
bool StagedCopy::start_remote(QueuePair& qp, Piece& piece) {
  piece.request = nullptr;
  if (piece.remote_gpu < 0 && qp.peer().direct()) {
    SegmentList chunk, remote;
    chunk.add(reinterpret_cast<uint64_t>(qp.process().arena().at<void>(piece.chunk)), piece.bytes,
              -1);
    remote.add(piece.remote, piece.bytes, -1);
    CopyResult result =
        fetch_ ? read_host(qp.peer(), chunk, remote) : write_host(qp.peer(), chunk, remote);
    piece.stage = Stage::kRemote;
    if (result == CopyResult::kGone) qp.peer().mark_gone();
    return result == CopyResult::kDone;
  }
  CopyOrder order = {piece.chunk,      piece.remote, piece.bytes,
                     piece.remote_gpu, fetch_,       qp.lane_hint()};
  piece.request = place_request(qp.process(), qp.peer(), order);
  if (piece.request == nullptr)
    return qp.peer().alive();  // all requests are in use: try again later
  piece.stage = Stage::kRemote;
  return true;
}

StagedCopy::State StagedCopy::remote_state(QueuePair& qp, Piece& piece) {
  if (piece.request == nullptr) return State::kDone;
  CopyState state = piece.request->state.load(std::memory_order_acquire);
  if (state == CopyState::kDone || state == CopyState::kFailed) {
    piece.request->state.store(CopyState::kFree, std::memory_order_release);
    piece.request = nullptr;
    return state == CopyState::kDone ? State::kDone : State::kFailed;
  }
  return qp.peer().alive() ? State::kBusy : State::kFailed;
}

void StagedCopy::finish(QueuePair& qp, Piece& piece) {
  qp.process().staging().give(piece.chunk);
  piece.stage = Stage::kIdle;
  ++finished_;
}

// Moves a piece on as far as it goes without waiting. Returns false when it failed.
bool StagedCopy::advance_piece(QueuePair& qp, Piece& piece) {
  // Programs poll the last bytes of host memory: pieces have to arrive there in order.
  bool ordered = fetch_ ? piece.local_gpu < 0 : piece.remote_gpu < 0;
  bool my_turn = !ordered || piece.sequence == finished_;
  for (;;) {
    switch (piece.stage) {
      case Stage::kIdle:
        return true;
      case Stage::kLocal:
        if (!local_done(piece)) return true;
        if (failed_) return false;
        if (fetch_) {
          finish(qp, piece);
          return true;
        }
        piece.stage = Stage::kRemoteWaiting;
        break;
      case Stage::kRemoteWaiting:
        if (!fetch_ && !my_turn) return true;
        if (!start_remote(qp, piece)) return false;
        if (piece.stage == Stage::kRemoteWaiting) return true;
        break;
      case Stage::kRemote: {
        State state = remote_state(qp, piece);
        if (state == State::kBusy) return true;
        if (state == State::kFailed) return false;
        if (!fetch_) {
          finish(qp, piece);
          return true;
        }
        piece.stage = Stage::kLocalWaiting;
        break;
      }
      case Stage::kLocalWaiting:
        if (!my_turn) return true;
        if (!start_local(qp, piece)) return false;
        break;
    }
  }
}

StagedCopy::State StagedCopy::advance(QueuePair& qp) {
  if (failed_) return drain(qp) ? State::kFailed : State::kBusy;
  bool busy = false;
  for (Piece& piece : pieces_) {
    if (piece.stage == Stage::kIdle && next_piece(qp, piece)) {
      if (fetch_) {
        piece.stage = Stage::kRemoteWaiting;
      } else if (!start_local(qp, piece)) {
        failed_ = true;
      }
    }
    if (!failed_ && !advance_piece(qp, piece)) failed_ = true;
    busy = busy || piece.stage != Stage::kIdle;
  }
  if (failed_) return drain(qp) ? State::kFailed : State::kBusy;
  bool all_made = local_index_ == local_->count || remote_index_ == remote_->count;
  return busy || !all_made ? State::kBusy : State::kDone;
}

// After a failure: frees the pieces whose copies have ended. Returns true when none is left.
bool StagedCopy::drain(QueuePair& qp) {
  bool busy = false;
  for (Piece& piece : pieces_) {
    bool waits = (piece.stage == Stage::kLocal && !local_done(piece)) ||
                 (piece.stage == Stage::kRemote && remote_state(qp, piece) == State::kBusy);
    busy = busy || waits;
    if (!waits && piece.stage != Stage::kIdle) finish(qp, piece);
  }
  return !busy;
}

void StagedCopy::abort(QueuePair& qp) {
  failed_ = true;
  for (Piece& piece : pieces_) {
    if (piece.stage == Stage::kIdle) continue;
    if (piece.stage == Stage::kLocal && piece.ticketed) {
      GpuCopier& copier = *GpuCopier::get();
      while (!copier.done(piece.ticket) && !copier.failure(piece.ticket.lane)) {
        std::this_thread::yield();
      }
    }
    if (piece.stage == Stage::kRemote && piece.request != nullptr) {
      withdraw_request(qp.peer(), *piece.request);
    }
    finish(qp, piece);
  }
}

}  // namespace softhca
