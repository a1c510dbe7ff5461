// What follows from the asynchronous events of HCAs.
#pragma once

#include <string>

#include "transport/device/hca.h"
#include "transport/link/failure_log.h"
#include "transport/watch/watched_links.h"

namespace gdr::transport {

// Hands each event to the connections that it concerns, and logs it. Used by the watcher's thread.
class HcaEvents {
 public:
  // All outlive it. fails: fatal events fail the connections that they concern and that do not
  // recover; otherwise they are only logged (NCCL_IB_RETURN_ASYNC_EVENTS).
  HcaEvents(WatchedLinks& links, FailureLog& failures, bool fails)
      : links_(links), failures_(failures), fails_(fails) {}

  // Reads an event of the HCA, if there is one. has_ended: of its descriptor. Returns false once
  // the HCA reports nothing any more.
  bool read(const HcaContext& hca, bool has_ended);

 private:
  void take(const HcaContext& hca, const ibv_async_event& event, const std::string& what);
  void take_fatal(const HcaContext& hca, const ibv_async_event& event, const std::string& text);
  void take_port(const HcaContext& hca, const ibv_async_event& event, const std::string& text);

  WatchedLinks& links_;
  FailureLog& failures_;
  const bool fails_;
};

}  // namespace gdr::transport
