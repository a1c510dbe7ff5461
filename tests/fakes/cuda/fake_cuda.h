// The functions of the fake libcuda.so.1 with which a test steers it, beyond the driver API. A test
// loads the library at run time, as CUDA programs do, and finds them with dlsym.
#pragma once

extern "C" {

// While non-zero, a kernel "spins" on both devices: calls that wait for kernels on a real GPU
// (allocation, stream creation, page-locking, synchronisation) block until it is zero again.
void fake_cuda_set_kernel_running(int running);

// While non-zero, another thread "captures a graph in global mode": calls that fail
// on a real driver then, made by a thread whose capture mode is not relaxed, abort the process.
void fake_cuda_set_capturing(int capturing);

// While non-zero, the copies and fills of all streams wait.
void fake_cuda_set_copies_held(int held);

// Sets how long every copy waits before it starts, in microseconds. The process environment
// variable FAKE_CUDA_COPY_DELAY_US sets the initial value.
void fake_cuda_set_copy_delay_us(unsigned microseconds);

// From now on every call in the device's context returns `error`, and its streams drop their work.
void fake_cuda_fail_context(int device, int error);

// While non-zero, every call returns CUDA_ERROR_DEINITIALIZED, as in a driver during process exit.
void fake_cuda_set_shut_down(int shut_down);

// While non-zero, allocations behave like those of the virtual-memory API: only the device that is
// current at the allocation can access them, and copies by another fail.
void fake_cuda_set_virtual_memory(int is_virtual);

// While zero, exports of dma-bufs with a mapping over PCIe fail, as by an older driver.
void fake_cuda_set_pcie_mapping(int known);

// Returns how many dma-bufs were exported with that mapping.
unsigned long fake_cuda_pcie_mappings(void);

// Returns how many handles of virtual memory were retained and not released.
unsigned long fake_cuda_live_handles(void);

// Returns the address at which the CPU can read and write the device memory, whose own addresses
// fault; null if the address is not device memory.
void* fake_cuda_view(unsigned long long address);

// Returns whether the device's context has access to the peer's memory.
int fake_cuda_peer_enabled(int device, int peer);

// Returns how many copies, fills, writes and event records all streams have accepted so far.
unsigned long fake_cuda_stream_operations(void);
}
