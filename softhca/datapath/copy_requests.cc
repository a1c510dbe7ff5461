#include "softhca/datapath/copy_requests.h"

#include <thread>

#include "softhca/datapath/engine_wake.h"
#include "softhca/datapath/host_copy.h"
#include "softhca/fabric/process_order.h"
#include "softhca/fabric/staging_area.h"
#include "softhca/gpu/copier.h"

namespace softhca {

namespace {

// Frees the requests of processes that were killed before they had seen the result.
void reclaim(Process& process, CopyRequest* requests) {
  for (uint32_t i = 0; i < kCopyRequests; ++i) {
    CopyState state = requests[i].state.load();
    if (state != CopyState::kDone && state != CopyState::kFailed && state != CopyState::kClaimed) {
      continue;
    }
    std::shared_ptr<Peer> requester = process.peer(requests[i].requester_slot);
    bool alive = requester != nullptr && requester->alive() &&
                 requester->instance() == requests[i].requester_instance;
    if (!alive) requests[i].state.compare_exchange_strong(state, CopyState::kFree);
  }
}

CopyRequest* claim(Process& process, CopyRequest* requests, uint32_t hint) {
  for (uint32_t tried = 0; tried < kCopyRequests; ++tried) {
    CopyRequest& request = requests[(hint + tried) % kCopyRequests];
    CopyState expected = CopyState::kFree;
    if (request.state.load(std::memory_order_relaxed) == expected &&
        request.state.compare_exchange_strong(expected, CopyState::kClaimed)) {
      return &request;
    }
  }
  reclaim(process, requests);
  return nullptr;
}

// Returns true when the requester is still the one that placed the request, and the chunk is in its
// arena.
bool valid(const CopyRequest& request, const Peer* requester) {
  return requester != nullptr && requester->instance() == request.requester_instance &&
         request.bytes <= kChunkBytes && request.staging <= kArenaBytes - kChunkBytes;
}

}  // namespace

CopyRequest* place_request(Process& process, const Peer& owner, const CopyOrder& order) {
  ArenaHeader& header = owner.arena().header();
  CopyRequest* request = claim(process, header.copy_requests, order.hint);
  if (request == nullptr) return nullptr;
  request->requester_slot = process.slot();
  request->requester_instance = process.self().instance();
  request->staging = order.chunk;
  request->address = order.address;
  request->bytes = order.bytes;
  request->gpu = order.gpu;
  request->fetch = order.fetch ? 1 : 0;
  request->hint = order.hint;
  request->state.store(CopyState::kReady, std::memory_order_release);
  header.copy_requests_ready.fetch_add(1);
  wake_engine(header);
  return request;
}

void withdraw_request(Peer& owner, CopyRequest& request) {
  CopyState expected = CopyState::kReady;
  if (request.state.compare_exchange_strong(expected, CopyState::kFree)) {
    owner.arena().header().copy_requests_ready.fetch_sub(1);
    return;
  }
  while (owner.alive()) {
    CopyState state = request.state.load(std::memory_order_acquire);
    if (state == CopyState::kDone || state == CopyState::kFailed) break;
    std::this_thread::yield();
  }
  request.state.store(CopyState::kFree);
}

bool copies_for(const Process& process, uint64_t instance) {
  for (const CopyRequest& request : process.arena().header().copy_requests) {
    CopyState state = request.state.load(std::memory_order_acquire);
    bool open = state == CopyState::kReady || state == CopyState::kRunning;
    if (open && request.requester_instance == instance) return true;
  }
  return false;
}

bool CopyServer::serve() {
  ArenaHeader& header = process_.arena().header();
  if (running_ == 0 && header.copy_requests_ready.load(std::memory_order_acquire) == 0) {
    return false;
  }
  for (uint32_t i = 0; i < kCopyRequests; ++i) {
    CopyRequest& request = header.copy_requests[i];
    CopyState state = request.state.load(std::memory_order_acquire);
    if (state == CopyState::kReady) start(request, i);
    if (state == CopyState::kRunning) advance(request, i);
  }
  return running_ != 0 || header.copy_requests_ready.load() != 0;
}

void CopyServer::start(CopyRequest& request, uint32_t index) {
  CopyState expected = CopyState::kReady;
  if (!request.state.compare_exchange_strong(expected, CopyState::kRunning)) return;
  process_.arena().header().copy_requests_ready.fetch_sub(1);
  Running& copy = copies_[index];
  copy.requester = process_.peer(request.requester_slot);
  CopyState result =
      valid(request, copy.requester.get()) ? copy_now(request, copy) : CopyState::kFailed;
  if (result == CopyState::kRunning) {
    ++running_;
    return;
  }
  finish(request, copy, result);
}

void CopyServer::finish(CopyRequest& request, Running& copy, CopyState result) {
  copy.requester = nullptr;
  order_copy_before_polls(process_.arena().header());
  request.state.store(result, std::memory_order_release);
}

// Copies host memory, or starts a copy of CUDA memory: kDone, kRunning or kFailed.
CopyState CopyServer::copy_now(const CopyRequest& request, Running& copy) {
  void* chunk = copy.requester->arena().at<void>(request.staging);
  void* own = reinterpret_cast<void*>(request.address);
  void* to = request.fetch != 0 ? chunk : own;
  const void* from = request.fetch != 0 ? own : chunk;
  if (request.gpu < 0) {
    copy_ordered(to, from, request.bytes);
    return CopyState::kDone;
  }
  GpuCopier* copier = GpuCopier::get();
  if (copier == nullptr) return CopyState::kFailed;
  gdr::Result<GpuTicket> ticket =
      copier->copy(copier->lane(request.gpu, request.hint), to, from, request.bytes);
  if (!ticket) return CopyState::kFailed;
  copy.ticket = *ticket;
  copy.polls = 0;
  return CopyState::kRunning;
}

void CopyServer::advance(CopyRequest& request, uint32_t index) {
  Running& copy = copies_[index];
  GpuCopier& copier = *GpuCopier::get();
  CopyState result = CopyState::kDone;
  if (!copier.done(copy.ticket)) {
    if (++copy.polls % copier.kPollsPerFailureCheck != 0 || !copier.failure(copy.ticket.lane))
      return;
    result = CopyState::kFailed;
  }
  --running_;
  finish(request, copy, result);
}

}  // namespace softhca
