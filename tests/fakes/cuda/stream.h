// Contexts, streams and events of the fake. Each stream has a thread that does its work in order.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "drivers/cuda/cuda_api.h"

struct CUctx_st {
  int device;
  std::atomic<int> retained{0};
  std::atomic<int> error{0};
  std::mutex mutex;
  std::set<CUstream_st*> streams;     // guarded by mutex
  std::set<const CUctx_st*> friends;  // guarded by mutex; contexts whose memory it can access

  // Waits until the work of all streams is done.
  void drain();
};

struct CUstream_st {
 public:
  explicit CUstream_st(CUctx_st* context);
  // Waits for the remaining work.
  ~CUstream_st();
  CUstream_st(const CUstream_st&) = delete;
  CUstream_st& operator=(const CUstream_st&) = delete;

  CUctx_st* context() const { return context_; }
  void enqueue(std::function<void()> operation);
  bool idle();
  void drain();

 private:
  void run();

  CUctx_st* const context_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;  // the running operation stays at its front
  bool stopping_ = false;
  std::thread worker_;
};

struct CUevent_st {
  CUctx_st* context;
  std::atomic<uint64_t> recorded{0};
  // Shared with the operations that complete it: an event may be destroyed before they run.
  std::shared_ptr<std::atomic<uint64_t>> completed = std::make_shared<std::atomic<uint64_t>>(0);
};
