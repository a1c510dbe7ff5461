#include "tests/fakes/cuda/rules.h"

#include <cstdio>
#include <cstdlib>

namespace fake_cuda {

void violation(const char* call, const char* text) {
  std::fprintf(stderr, "fake libcuda: %s: %s\n", call, text);
  std::abort();
}

unsigned environment(const char* name, unsigned otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

void Gate::set_closed(bool closed) {
  std::lock_guard<std::mutex> lock(mutex_);
  closed_ = closed;
  changed_.notify_all();
}

void Gate::pass() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !closed_; });
}

Switches& switches() {
  static auto* instance = new Switches;  // outlives the streams' threads
  return *instance;
}

}  // namespace fake_cuda
