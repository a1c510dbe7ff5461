// GIDs in tests, written as IPv6 addresses.
#pragma once

#include <arpa/inet.h>

#include <stdexcept>

#include "transport/device/cidr.h"

namespace gdr::transport {

inline Gid gid(const char* text) {
  Gid value{};
  if (inet_pton(AF_INET6, text, value.data()) != 1) throw std::invalid_argument(text);
  return value;
}

}  // namespace gdr::transport
