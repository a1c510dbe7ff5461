// Errors as values. A function that can fail returns Result<T>, or Status if it has no value:
//   Result<int> port = parse_port(text);
//   if (!port) return forward_error(port);
// Nothing in this tree throws to its caller.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace gdr {

// What kind of failure it is. plugin/net.cc maps each to an ncclResult_t.
enum class Code : uint8_t {
  kInvalidArgument,  // the caller passed an invalid value
  kInvalidUsage,     // the configuration or the order of calls is wrong; the user can fix it
  kSystem,           // a system call, verb or driver call failed
  kRemote,           // the peer, or the network between, failed
  kInternal,         // a bug of this tree, or a peer that violates the protocol
  kUnsupported,      // the device or the driver cannot do this
  kDeclined,         // it would be harmful at this moment, and the caller does not depend on it
};

// The text names what failed, on which device, port, QP and peer, and what to try. It has no full
// stop at its end, so that it can be embedded in others.
struct Error {
  Code code;
  std::string text;
  int sys_errno = 0;  // of the system call or verb; 0: none
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

// Makes an error to return: `return fail(Code::kSystem, "...");`.
inline tl::unexpected<Error> fail(Code code, std::string text, int sys_errno = 0) {
  return tl::unexpected<Error>(Error{code, std::move(text), sys_errno});
}

// Makes an error with errno `err`, and appends ": <strerror(err)> (errno <err>)" to its text.
tl::unexpected<Error> fail_errno(Code code, std::string text, int err);

// Adds a detail to an error's text, in front of its fix (". Fix: ...") where it names one.
void add_detail(std::string* text, const std::string& detail);

// "0x11", as error texts write the numbers of queue pairs and vendors.
std::string hex(uint64_t value);

// Returns the error of `result`, which has one, as a value that converts to any other Result.
template <class T>
tl::unexpected<Error> forward_error(Result<T>& result) {
  return tl::unexpected<Error>(std::move(result.error()));
}

}  // namespace gdr
