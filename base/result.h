// Errors as values: Result<T> and Status, used by every part of the tree.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace gdr {

enum class Code : uint8_t {
  kInvalidArgument,  // the caller passed something that cannot be
  kInvalidUsage,     // configuration or call order is wrong; the user can mend it
  kSystem,           // a system call, verb or driver call failed
  kRemote,           // the peer, or the network between, failed
  kInternal,         // a bug of ours, or a peer that breaks the protocol
  kUnsupported,      // the device or the driver cannot do this
  kDeclined,         // it would do harm here and now; the caller can do without
};

// text says what failed, on which device, port, qp and peer, and what to try.
struct Error {
  Code code;
  std::string text;
  int sys_errno = 0;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> fail(Code code, std::string text, int sys_errno = 0) {
  return tl::unexpected<Error>(Error{code, std::move(text), sys_errno});
}

// Appends ": <strerror(err)> (errno <err>)" to text.
tl::unexpected<Error> fail_errno(Code code, std::string text, int err);

// Passes an Error of one Result on as another's.
template <class T>
tl::unexpected<Error> forward_error(Result<T>& result) {
  return tl::unexpected<Error>(std::move(result.error()));
}

}  // namespace gdr
