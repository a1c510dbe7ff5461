// What the drivers of this folder have in common: a plugin's network table, with both ends of each
// connection in this process. Every failure ends the program with a text.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <string>

#include "tools/net/plugin_loader.h"

namespace gdr::bench {

// Prints "PROGRAM: what" and ends the program with status 1.
[[noreturn]] void die(const std::string& what);

// Ends the program as an entry of the table returned an error; names the process's limits, which
// many connections meet first.
[[noreturn]] void fail_entry(abi::ncclResult_t result, const char* entry);

// Ends the program unless the entry returned ncclSuccess. Inline, as loops are timed that call it.
inline void require(abi::ncclResult_t result, const char* entry) {
  if (result != abi::ncclSuccess) fail_entry(result, entry);
}

// A logger for init that prints warnings. Formats other than "%s" are printed without their
// arguments: nccl-rdma-sharp-plugins passes some that do not fit.
void log_warnings(abi::ncclDebugLogLevel level, unsigned long, const char* file, int line,
                  const char* format, ...);
// How it prints a warning.
void print_warning(const char* file, int line, const char* format, va_list arguments);

// Loads a plugin and returns its table; "newest" or the number of a version. It stays loaded:
// nccl-rdma-sharp-plugins has a thread that outlives its library.
tools::Net& load(const char* file, const char* table);

// Calls init, and returns the context. Ends the program where the plugin has fewer devices than
// that.
void* init(tools::Net& net, abi::ncclDebugLogger_t logger, int least_devices);

// The two comms of a connection, null until connect().
struct Pair {
  void* sender = nullptr;
  void* receiver = nullptr;
};

// Listens on one device, connects from the other, accepts and closes the listener, as NCCL does.
Pair connect(tools::Net& net, void* context, int sending_device, int receiving_device);

// Registers host memory; returns its handle.
void* register_host(tools::Net& net, void* comm, void* data, size_t bytes);

// Closes both ends, whose memory is deregistered.
void disconnect(tools::Net& net, const Pair& pair);

}  // namespace gdr::bench
