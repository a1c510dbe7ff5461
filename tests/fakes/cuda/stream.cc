#include "tests/fakes/cuda/stream.h"

#include <utility>

void CUctx_st::drain() {
  std::lock_guard<std::mutex> lock(mutex);
  for (CUstream_st* stream : streams) stream->drain();
}

CUstream_st::CUstream_st(CUctx_st* context) : context_(context), worker_([this] { run(); }) {
  std::lock_guard<std::mutex> lock(context_->mutex);
  context_->streams.insert(this);
}

CUstream_st::~CUstream_st() {
  {
    std::lock_guard<std::mutex> lock(context_->mutex);
    context_->streams.erase(this);
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  worker_.join();
}

void CUstream_st::enqueue(std::function<void()> operation) {
  std::lock_guard<std::mutex> lock(mutex_);
  queue_.push_back(std::move(operation));
  changed_.notify_all();
}

bool CUstream_st::idle() {
  std::lock_guard<std::mutex> lock(mutex_);
  return queue_.empty();
}

void CUstream_st::drain() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty(); });
}

void CUstream_st::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()>& operation = queue_.front();  // a deque keeps it in place
    lock.unlock();
    if (context_->error.load() == gdr::cuda::kSuccess) operation();
    lock.lock();
    queue_.pop_front();
    changed_.notify_all();
  }
}
