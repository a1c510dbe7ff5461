// Makes NCCL's built-in IB transport a plugin: exports its table, and replaces what it calls of the
// CUDA runtime, so that no GPU is needed. Not part of the build, since it needs NCCL's source:
// `builtin_ib` compiles it.
#include "core.h"
#include "net.h"

extern "C" {
__attribute__((visibility("default"))) ncclNet_t BUILTIN_IB_TABLE;

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char*, int, int) { return cudaErrorNoDevice; }
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) { return "no CUDA runtime"; }
}

// When the library is loaded, before anybody looks the table up.
__attribute__((constructor)) static void fill_table() { BUILTIN_IB_TABLE = ncclNetIb; }
