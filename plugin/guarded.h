// Keeps exceptions of C++ out of NCCL, whose threads would end the process. The plugin throws none
// itself, but memory, threads and random numbers can run out in the standard library.
#pragma once

#include <exception>
#include <new>
#include <system_error>

#include "plugin/abi/nccl_types.h"

namespace gdr::plugin {

// Logs the exception as the failure of `call`, with what can be done. Does not allocate.
[[gnu::cold]] void log_exception(const char* call, const std::exception& error) noexcept;

// Returns what `body` returns or, where it throws, ncclSystemError if the system ran out of
// something, else ncclInternalError. Where nothing is thrown, not one more instruction runs than
// without: that is why the handlers return constants, since a result would occupy a register of the
// whole function. The C library's own exception, by which it cancels threads, is not a
// std::exception and passes through.
template <class Body>
[[gnu::always_inline]] inline abi::ncclResult_t guarded(const char* call, Body&& body) {
  try {
    return body();
  } catch (const std::bad_alloc& error) {
    log_exception(call, error);
    return abi::ncclSystemError;
  } catch (const std::system_error& error) {
    log_exception(call, error);
    return abi::ncclSystemError;
  } catch (const std::exception& error) {
    log_exception(call, error);
    return abi::ncclInternalError;
  }
}

}  // namespace gdr::plugin
