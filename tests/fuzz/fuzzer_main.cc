// What libFuzzer calls. Its main() is in the library, and reads the options.
#include "tests/fuzz/target.h"

namespace {
const gdr::fuzz::Target* g_target = nullptr;
}  // namespace

// The names are libFuzzer's (https://llvm.org/docs/LibFuzzer.html).
extern "C" int LLVMFuzzerInitialize(int*, char*** argv) {
  g_target = &gdr::fuzz::target_of((*argv)[0]);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  gdr::fuzz::run_once(*g_target, {data, bytes});
  return 0;
}
