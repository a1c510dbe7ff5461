// Threads of the plugin take none of the application's signals: a thread inherits the mask of the
// one that starts it.
#pragma once

#include <signal.h>

namespace gdr {

// Blocks all signals of the calling thread for its lifetime, also where std::thread throws.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace gdr
