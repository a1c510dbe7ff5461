#include "tests/conformance/reference_comm.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "tests/conformance/defect.h"

namespace gdr::reference {
namespace {
constexpr int64_t kPluginId = 0x52660001;  // names the layout of the data, of which there is none

bool is_optional(const void* request) {
  return reinterpret_cast<uintptr_t>(request) == abi::kOptionalReceiveCompletion;
}
}  // namespace

void Event::start(void* phandle) {
  abi::ncclProfilerCallback_t profiler = g_profiler.load();
  if (profiler == nullptr) return;
  if (has_defect("wrong_phandle")) phandle = this;
  profiler(&handle_, abi::kProfilerEventStart, phandle, kPluginId, nullptr);
  open_ = true;
}

void Event::stop() {
  if (!open_) return;
  open_ = false;
  abi::ncclProfilerCallback_t profiler = g_profiler.load();
  bool recorded = handle_ != nullptr || has_defect("stops_null");
  if (profiler == nullptr || !recorded || has_defect("never_stops")) return;
  profiler(&handle_, abi::kProfilerEventStop, nullptr, 0, nullptr);
  if (has_defect("stops_twice")) {
    profiler(&handle_, abi::kProfilerEventStop, nullptr, 0, nullptr);
  }
}

Comm::~Comm() {
  // With unread bytes, the close would become a reset, and the peer would lose data that is still
  // in transit.
  char rest[4096];
  while (recv(fd_.get(), rest, sizeof(rest), MSG_DONTWAIT) > 0) {
  }
  if (has_defect("leaks_descriptors")) fd_.release();
}

size_t Comm::read_some(void* into, size_t bytes) {
  if (broken_ || bytes == 0) return 0;
  ssize_t got = recv(fd_.get(), into, bytes, MSG_DONTWAIT);
  if (got > 0) return static_cast<size_t>(got);
  bool closed = got == 0 || (errno != EAGAIN && errno != EINTR);
  if (closed && !has_defect("ignores_death")) broken_ = true;
  return 0;
}

size_t Comm::write_some(const void* from, size_t bytes) {
  if (broken_ || bytes == 0) return 0;
  ssize_t sent = send(fd_.get(), from, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent >= 0) return static_cast<size_t>(sent);
  if (errno != EAGAIN && errno != EINTR && !has_defect("ignores_death")) broken_ = true;
  return 0;
}

Request* Comm::add_request() {
  requests_.push_back(std::make_unique<Request>());
  requests_.back()->comm = this;
  return requests_.back().get();
}

abi::ncclResult_t Comm::test(Request* request, int* done, int* sizes) {
  if (!request->done) progress();
  *done = request->done ? 1 : 0;
  if (request->optional && has_defect("forgets_optional")) *done = 0;
  if (*done == 0 && request->done) return abi::ncclSuccess;
  if (!request->done) return broken_ ? abi::ncclRemoteError : abi::ncclSuccess;
  if (has_defect("needs_sizes") || sizes != nullptr) {
    for (uint32_t i = 0; i < request->buffers; ++i) {
      bool wrong = has_defect("wrong_size") && request->room[i] > 0;
      size_t bytes = wrong ? request->room[i] : request->sizes[i];
      if (!has_defect("negative_size")) bytes = std::min<size_t>(bytes, INT_MAX);
      sizes[i] = static_cast<int>(bytes);
    }
  }
  std::erase_if(requests_, [request](const auto& each) { return each.get() == request; });
  return abi::ncclSuccess;
}

void SendComm::read_clear_to_send() {
  for (;;) {
    auto* into = reinterpret_cast<char*>(&partial_) + partial_bytes_;
    size_t got = read_some(into, sizeof(partial_) - partial_bytes_);
    partial_bytes_ += got;
    if (got == 0) return;
    if (partial_bytes_ < sizeof(partial_)) continue;
    clears_.push_back(Waiting{partial_, {}, partial_.buffers});
    partial_bytes_ = 0;
  }
}

abi::ncclResult_t SendComm::isend(void* data, size_t bytes, int tag, void* phandle,
                                  void** request) {
  constexpr size_t kRoom = size_t{abi::kMaxRequests} * abi::kMaxRecvs;
  progress();
  if (broken_) return abi::ncclRemoteError;
  if (clears_.empty() && has_defect("early_send_fails")) return abi::ncclInternalError;
  if (!(has_defect("leaves_request"))) *request = nullptr;
  if (clears_.empty() || requests_.size() >= kRoom) return abi::ncclSuccess;
  Waiting& waiting = clears_.front();
  uint32_t slot = 0;
  while (slot < waiting.clear.buffers &&
         (waiting.taken[slot] || (waiting.clear.tags[slot] != tag && !has_defect("drops_tag")))) {
    ++slot;
  }
  if (slot == waiting.clear.buffers) return abi::ncclSuccess;
  if (bytes > waiting.clear.sizes[slot]) {
    if (!has_defect("truncates")) return abi::ncclInvalidUsage;
    bytes = waiting.clear.sizes[slot];
  }
  waiting.taken[slot] = true;
  Request* made = add_request();
  uint64_t sent = has_defect("wraps_size") ? static_cast<uint32_t>(bytes) : bytes;
  made->header = DataHeader{waiting.clear.sequence, slot, sent};
  made->data[0] = static_cast<char*>(data);
  made->sizes[0] = bytes;
  made->events[0].start(phandle);
  if (--waiting.left == 0) clears_.pop_front();
  *request = made;
  progress();
  return abi::ncclSuccess;
}

// Returns true when the whole message has been written to the socket.
bool SendComm::write_message(Request& request) {
  if (request.moved < sizeof(DataHeader)) {
    const auto* from = reinterpret_cast<const char*>(&request.header) + request.moved;
    request.moved += write_some(from, sizeof(DataHeader) - request.moved);
    if (request.moved < sizeof(DataHeader)) return false;
  }
  size_t total = sizeof(DataHeader) + request.header.bytes;
  size_t at = request.moved - sizeof(DataHeader);
  request.moved += write_some(request.data[0] + at, total - request.moved);
  return request.moved == total;
}

void SendComm::progress() {
  read_clear_to_send();
  for (const auto& request : requests_) {
    if (request->done) continue;
    if (!write_message(*request)) return;
    request->done = true;
  }
}

abi::ncclResult_t RecvComm::irecv(int n, void** data, const size_t* sizes, const int* tags,
                                  void** phandles, void** request) {
  progress();
  if (broken_) return abi::ncclRemoteError;
  size_t room = has_defect("few_requests") ? 8 : abi::kMaxRequests;
  if (requests_.size() >= room) {
    if (has_defect("full_is_error")) return abi::ncclSystemError;
    bool leaves =
        has_defect("leaves_request") || (has_defect("leaves_marker") && is_optional(*request));
    if (!leaves) *request = nullptr;
    return abi::ncclSuccess;
  }
  Request* made = add_request();
  made->sequence = next_sequence_++;
  made->left = made->buffers = static_cast<uint32_t>(n);
  ClearToSend clear;
  clear.sequence = made->sequence;
  clear.buffers = made->buffers;
  for (int i = 0; i < n; ++i) {
    made->data[i] = static_cast<char*>(data[i]);
    made->room[i] = clear.sizes[i] = sizes[i];
    clear.tags[i] = tags[i];
    if (phandles != nullptr) made->events[i].start(phandles[i]);
  }
  made->optional = is_optional(*request);
  out_.append(reinterpret_cast<const char*>(&clear), sizeof(clear));
  progress();
  *request = made;
  return abi::ncclSuccess;
}

// Returns true when a header has been read and its buffer is known.
bool RecvComm::read_header() {
  if (filling_ != nullptr) return true;
  auto* into = reinterpret_cast<char*>(&header_) + header_bytes_;
  header_bytes_ += read_some(into, sizeof(header_) - header_bytes_);
  if (header_bytes_ < sizeof(header_)) return false;
  header_bytes_ = 0;
  payload_bytes_ = 0;
  auto found = std::find_if(requests_.begin(), requests_.end(), [this](const auto& each) {
    return each->sequence == header_.sequence && !each->done;
  });
  if (found == requests_.end() || header_.slot >= (*found)->buffers ||
      header_.bytes > (*found)->room[header_.slot]) {
    broken_ = true;  // the peer violates the protocol
    return false;
  }
  filling_ = found->get();
  return true;
}

// Returns true when the message is complete.
bool RecvComm::read_payload() {
  char* at = filling_->data[header_.slot] + payload_bytes_;
  payload_bytes_ += read_some(at, header_.bytes - payload_bytes_);
  if (payload_bytes_ < header_.bytes) return false;
  char* end = filling_->data[header_.slot] + header_.bytes;
  if (has_defect("writes_past_end")) *end = 'x';
  if (has_defect("corrupts_large") && header_.bytes > (4u << 20)) end[-1] ^= 1;
  filling_->sizes[header_.slot] = header_.bytes;
  bool lost = has_defect("loses_empty") && header_.bytes == 0;
  if (!lost && --filling_->left == 0) filling_->done = true;
  filling_ = nullptr;
  return true;
}

void RecvComm::progress() {
  out_.erase(0, write_some(out_.data(), out_.size()));
  while (read_header() && read_payload()) {
  }
}

}  // namespace gdr::reference
