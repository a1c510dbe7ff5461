// What a test may ask of the fake libcuda.so.1 beyond the driver API. Look the functions up with
// dlsym: a test loads the library at run time, as CUDA programs do.
#pragma once

extern "C" {

// While non-zero, a kernel "spins" on both devices: calls that wait for kernels on a real GPU
// (allocation, stream creation, page-locking, synchronisation) block until it is zero again.
void fake_cuda_set_kernel_running(int running);

// While non-zero, another thread "captures a graph in global mode": calls that a real driver
// refuses then, made by a thread whose capture mode is not relaxed, abort the process.
void fake_cuda_set_capturing(int capturing);

// While non-zero, streams hold their copies and fills back.
void fake_cuda_set_copies_held(int held);

// How long every copy takes to start, in microseconds. At first FAKE_CUDA_COPY_DELAY_US.
void fake_cuda_set_copy_delay_us(unsigned microseconds);

// From now on the device's context answers `error`, and its streams drop their work.
void fake_cuda_fail_context(int device, int error);

// Everything answers CUDA_ERROR_DEINITIALIZED while set, as a driver does during process exit.
void fake_cuda_set_shut_down(int shut_down);

// While non-zero, allocations are as the virtual-memory API makes them: only the device that is
// current then reaches them, and copies by another are refused.
void fake_cuda_set_virtual_memory(int is_virtual);

// Handles of virtual memory that were retained and not released.
unsigned long fake_cuda_live_handles(void);

// Where the CPU may look at device memory, whose own addresses fault; null if not device memory.
void* fake_cuda_view(unsigned long long address);

// Whether the device's context was given access to the peer's memory.
int fake_cuda_peer_enabled(int device, int peer);

// Copies, fills, writes and event records that all streams accepted so far.
unsigned long fake_cuda_stream_operations(void);
}
