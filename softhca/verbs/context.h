// An open device, and the small objects that belong to it. The application holds pointers to their
// first members, from which of() finds them again.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "softhca/fabric/event_queue.h"
#include "softhca/verbs/device.h"

namespace softhca {

class Runtime;

// Behind ibv_open_device.
struct Context {
  verbs_context verbs;  // the application holds &verbs.context
  Runtime* runtime;
  Device* device;
  std::unique_ptr<EventQueue> async_events;
  std::atomic<uint32_t> objects{0};  // PDs, TDs, CQs and channels still open

  static Context& of(ibv_context* context) {
    return *reinterpret_cast<Context*>(reinterpret_cast<uint8_t*>(context) -
                                       offsetof(verbs_context, context));
  }
  ibv_context* handle() { return &verbs.context; }
};

// Behind ibv_create_comp_channel.
struct Channel {
  ibv_comp_channel verbs;
  std::unique_ptr<EventQueue> events;
  std::atomic<uint32_t> cqs{0};  // CQs that signal it

  static Channel& of(ibv_comp_channel* channel) { return *reinterpret_cast<Channel*>(channel); }
};

}  // namespace softhca
