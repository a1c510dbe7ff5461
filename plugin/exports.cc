// What the library exports: the tables, as GNU indirect functions (STT_GNU_IFUNC). For such a
// symbol dlsym(3) calls a resolver of the library and returns what that returns, which may be null.
// So NCCL finds no table above GDR_NCCL_TABLE_MAX, and takes the newest of the others.
#include <cstdint>

#include "plugin/config/environment.h"
#include "plugin/config/load.h"
#include "plugin/tables.h"

namespace gdr::plugin {
namespace {

// A table's address as the type that resolvers return; null where the user does not want the table.
// What is wrong with the variable is logged by init, which has a logger.
void (*offered(int version, const void* table) noexcept)() {
  int newest = config::Options{}.table_max;
  try {
    newest = config::load(config::process_environment(), nullptr).table_max;
  } catch (const std::exception&) {
    // Out of memory: init will fail, too, and log why.
  }
  if (version > newest) return nullptr;
  return reinterpret_cast<void (*)()>(reinterpret_cast<uintptr_t>(table));
}

}  // namespace
}  // namespace gdr::plugin

// A resolver's name is looked up as it stands in the assembly.
extern "C" {

using Table = void (*)();

#define GDR_EXPORT(version)                                             \
  static Table resolve_table_v##version() {                             \
    return gdr::plugin::offered(version, &gdr::plugin::kNetV##version); \
  }                                                                     \
  __attribute__((ifunc("resolve_table_v" #version),                     \
                 visibility("default"))) void ncclNetPlugin_v##version();

GDR_EXPORT(6)
GDR_EXPORT(7)
GDR_EXPORT(8)
GDR_EXPORT(9)
GDR_EXPORT(10)
GDR_EXPORT(11)
GDR_EXPORT(12)

#undef GDR_EXPORT
}
