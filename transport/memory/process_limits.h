// What the kernel allows this process, asked after a registration failed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gdr::transport {

// RLIMIT_MEMLOCK in bytes; nothing where it is unlimited or does not count (CAP_IPC_LOCK).
// `status` is the process's status file.
std::optional<uint64_t> memory_lock_limit(const std::string& status = "/proc/self/status");

// Bytes that RDMA registrations hold pinned (VmPin); 0 where it cannot be told.
uint64_t pinned_bytes(const std::string& status = "/proc/self/status");

// Whether no file can be opened for want of descriptors.
bool file_descriptors_exhausted();

// uname's release, such as "6.1.0-18-amd64".
std::string kernel_release();

}  // namespace gdr::transport
