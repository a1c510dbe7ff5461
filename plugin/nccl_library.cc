#include "plugin/nccl_library.h"

#include <dlfcn.h>

#include "plugin/abi/nccl_types.h"

namespace gdr::plugin {

int version_of_library(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0) return 0;
  void* library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) library = dlopen(nullptr, RTLD_LAZY);  // the program itself
  if (library == nullptr) return 0;
  auto* get_version = reinterpret_cast<int (*)(int*)>(dlsym(library, "ncclGetVersion"));
  int version = 0;
  if (get_version != nullptr && get_version(&version) != abi::ncclSuccess) version = 0;
  dlclose(library);
  return version;
}

}  // namespace gdr::plugin
