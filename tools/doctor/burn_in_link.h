// The TCP connection of two doctors that measure together: they agree on the measurements, start
// each at the same time, and exchange results. A message is a line of JSON.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "tools/doctor/burn_in.h"
#include "tools/doctor/burn_in_child.h"

namespace gdr::tools::doctor {

class BurnInLink {
 public:
  // Listens or connects, and exchanges the hellos. Connections that do not begin with a hello, as a
  // port scan's, are closed. kInvalidUsage where the other machine does not come before the
  // deadline, or is no doctor of this version.
  static Result<BurnInLink> meet(const BurnInPeer& peer, const nlohmann::json& hello,
                                 BurnInClock::time_point deadline);

  const nlohmann::json& hello() const;  // of the other machine: an object

  // Sends a message, and returns the one of the other machine. kInvalidUsage where that has left,
  // or is silent until the deadline.
  Result<nlohmann::json> exchange(const nlohmann::json& message, BurnInClock::time_point deadline);

  // Whether there is something to read: a message, or that the other machine has left.
  bool has_news() const;

  BurnInLink(BurnInLink&&) noexcept;
  BurnInLink& operator=(BurnInLink&&) noexcept;
  ~BurnInLink();

 private:
  struct Connection;
  explicit BurnInLink(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

}  // namespace gdr::tools::doctor
