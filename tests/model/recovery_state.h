// The state of a connection in the model of the recovery: both ends, their queue pairs and what is
// between them. All of it is plain data, since the explorer copies millions of states.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "transport/recovery/pair_agreement.h"

namespace gdr::model {

inline constexpr int kMaxPairs = 3;
inline constexpr int kMaxMessages = 4;
inline constexpr int kMaxChunks = 2;  // of a message
inline constexpr int kMaxSlots = 4;
inline constexpr int kSender = 0;
inline constexpr int kReceiver = 1;

// A list of at most kCapacity elements. More would be an error of the model, not of the protocol.
template <class T, size_t kCapacity>
class List {
 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T& operator[](size_t i) const { return items_[i]; }
  T& operator[](size_t i) { return items_[i]; }
  const T* begin() const { return items_.data(); }
  const T* end() const { return items_.data() + size_; }
  void push(const T& item) {
    if (size_ == kCapacity) std::abort();
    items_[size_++] = item;
  }
  T pop() {
    const T item = items_[0];
    for (size_t i = 1; i < size_; ++i) items_[i - 1] = items_[i];
    --size_;
    return item;
  }
  void cut(size_t size) { size_ = static_cast<uint8_t>(size); }
  void clear() { size_ = 0; }
  bool full() const { return size_ == kCapacity; }

 private:
  std::array<T, kCapacity> items_{};
  uint8_t size_ = 0;
};

struct Chunk {
  uint8_t message;
  uint8_t number;
};

// A wire::PairStatement in few bytes. serial 0: none.
struct Stated {
  uint32_t serial = 0;
  uint8_t pair = 0;
  uint8_t step = 0;
  uint8_t seen = 0;
  uint8_t arrived = 0;
  bool asks = false;
};

enum class WorkKind : uint8_t { kChunk, kClearToSend, kLastClearToSend, kProbe, kStatement };

// A work request that was posted and has not arrived.
struct Work {
  WorkKind kind;
  Chunk chunk{};      // kChunk
  uint8_t first = 0;  // kClearToSend, kLastClearToSend: the buffers from `first` to `end`
  uint8_t end = 0;
  Stated statement{};
};

// The completion of an immediate at the receiver.
struct Arrival {
  Chunk chunk;
  uint8_t epoch;
};

// One end's queue pair, and what it has sent.
struct Pair {
  transport::PairAgreement agreement{transport::PairEnd::kSender, 0};
  bool error = false;  // the QP is in ERROR
  uint8_t epoch = 0;   // that the QP was made ready for
  // A completion with an error is in the CQ; the HCA has reported an asynchronous event.
  bool error_completion = false;
  bool event = false;
  // Posted while the QP was in RTS and not arrived at the other end yet. It may still arrive when
  // this QP is in ERROR.
  List<Work, 12> sent;
  // Arrived, and its completion not taken from the CQ yet: as long as this QP is in RTS, the
  // acknowledgement may be on its way. In ERROR: those whose acknowledgement came.
  List<WorkKind, 12> unpolled;
  // The data path: whether it uses the pair, and whether it has taken over what was missing when it
  // did so last.
  bool uses = true;
  bool taken_over = false;
  // The entry of this end's tables that the other end writes.
  Stated table;
};

struct End {
  std::array<Pair, kMaxPairs> pair;
  // What this end has sent over the socket and the other one has not read: one statement of each
  // pair at most. Another one could only repeat it, or be read at once after it.
  List<Stated, kMaxPairs> socket;
};

// The data path of the sender.
struct Sender {
  uint8_t sent = 0;  // messages before it were sent
  // The ring of slots: which buffer's clear-to-send was written last, plus one.
  std::array<uint8_t, kMaxSlots> ring{};
  std::array<uint8_t, kMaxMessages> incomplete{};  // chunks that are neither acknowledged nor known
                                                   // to have arrived, by bit
  std::array<uint8_t, kMaxMessages> again{};       // chunks to be sent again, by bit
  // By pair, in its epoch.
  std::array<List<Chunk, 12>, kMaxPairs> posted{};
  std::array<uint8_t, kMaxPairs> acknowledged{};
};

// That of SpreadReceives, where kLost follows from the pair.
enum class Announcing : uint8_t { kFreely, kConfirms, kDown };

// The data path of the receiver.
struct Receiver {
  uint8_t posted = 0;     // receives
  uint8_t announced = 0;  // buffers before it were announced
  uint8_t announcer = 0;  // the pair that carries clear-to-send
  Announcing announcing = Announcing::kFreely;
  std::array<uint8_t, kMaxMessages> arrived{};  // chunks, by bit
  std::array<List<Arrival, 12>, kMaxPairs> cq{};
  std::array<uint8_t, kMaxPairs> counted{};
};

enum class Outcome : uint8_t { kNone, kNoPair, kDataLost };

struct RecoveryState {
  std::array<End, 2> end;
  Sender sender;
  Receiver receiver;
  std::array<bool, kMaxPairs> link{};  // packets pass
  bool socket = true;
  // What was used up of the bounds.
  uint8_t failures = 0;
  uint8_t repairs = 0;
  uint8_t failed_pairs = 0;  // by bit
  bool lost_in_hca = false;  // a receiver's HCA lost what it had acknowledged
  Outcome outcome = Outcome::kNone;
  const char* violation = nullptr;
};

}  // namespace gdr::model
