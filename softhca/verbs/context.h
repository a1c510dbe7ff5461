// An open device, and what belongs to it.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

#include "softhca/fabric/event_queue.h"
#include "softhca/verbs/device.h"

namespace softhca {

struct Context {
  verbs_context verbs;  // the application holds &verbs.context
  Process* process;
  const Device* device;
  std::unique_ptr<EventQueue> async_events;
  std::atomic<uint32_t> objects{0};  // PDs, CQs and channels still open

  static Context& of(ibv_context* context) {
    return *reinterpret_cast<Context*>(reinterpret_cast<uint8_t*>(context) -
                                       offsetof(verbs_context, context));
  }
  ibv_context* handle() { return &verbs.context; }
};

struct Pd {
  ibv_pd verbs;
  std::atomic<uint32_t> objects{0};  // MRs and QPs

  static Pd& of(ibv_pd* pd) { return *reinterpret_cast<Pd*>(pd); }
};

struct Channel {
  ibv_comp_channel verbs;
  std::unique_ptr<EventQueue> events;
  std::atomic<uint32_t> cqs{0};

  static Channel& of(ibv_comp_channel* channel) { return *reinterpret_cast<Channel*>(channel); }
};

}  // namespace softhca
