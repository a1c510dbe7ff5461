#include "topology/sources/hwloc_library.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>

#include "base/environment_swap.h"

namespace gdr::topology {
namespace {

constexpr char kSoname[] = "libhwloc.so.15";  // of hwloc 2.x
constexpr unsigned kApiMajor = 2;

template <class Function>
Status resolve(void* library, const char* name, Function& slot) {
  slot = reinterpret_cast<Function>(dlsym(library, name));
  if (slot != nullptr) return {};
  return fail(Code::kUnsupported,
              std::string(kSoname) + " has no " + name + ": hwloc 2.3 or later is needed");
}

Status resolve_all(void* lib, HwlocLibrary& api) {
  const Status results[] = {
      resolve(lib, "hwloc_get_api_version", api.get_api_version),
      resolve(lib, "hwloc_topology_init", api.topology_init),
      resolve(lib, "hwloc_topology_destroy", api.topology_destroy),
      resolve(lib, "hwloc_topology_load", api.topology_load),
      resolve(lib, "hwloc_topology_set_flags", api.topology_set_flags),
      resolve(lib, "hwloc_topology_set_components", api.topology_set_components),
      resolve(lib, "hwloc_topology_set_io_types_filter", api.topology_set_io_types_filter),
      resolve(lib, "hwloc_topology_set_type_filter", api.topology_set_type_filter),
      resolve(lib, "hwloc_topology_set_xmlbuffer", api.topology_set_xmlbuffer),
      resolve(lib, "hwloc_get_obj_by_depth", api.get_obj_by_depth),
      resolve(lib, "hwloc_bitmap_first", api.bitmap_first),
      resolve(lib, "hwloc_bitmap_last", api.bitmap_last),
      resolve(lib, "hwloc_bitmap_isset", api.bitmap_isset),
      resolve(lib, "hwloc_distances_get_by_name", api.distances_get_by_name),
      resolve(lib, "hwloc_distances_get_by_type", api.distances_get_by_type),
      resolve(lib, "hwloc_distances_release", api.distances_release),
  };
  for (const Status& result : results) {
    if (!result) return result;
  }
  return {};
}

Result<HwlocLibrary> load_once() {
  void* lib = dlopen(kSoname, RTLD_NOW | RTLD_LOCAL);
  if (lib == nullptr) {
    return fail(Code::kUnsupported, std::string(kSoname) + " cannot be loaded: " + dlerror() +
                                        ". Install hwloc 2 (Debian, Ubuntu: libhwloc15)");
  }
  HwlocLibrary api;
  if (Status status = resolve_all(lib, api); !status) return forward_error(status);
  if (unsigned major = api.get_api_version() >> 16; major != kApiMajor) {
    return fail(Code::kUnsupported, std::string(kSoname) + " has API version " +
                                        std::to_string(major) + ", but 2 is needed");
  }
  return api;
}

// Where firmware contradicts itself, hwloc asks on stderr for a report to its mailing list, and
// every rank would print that; here it is a finding of the machine. hwloc 2 has no call for it, and
// reads the variable once, at the first load in the process.
class Quiet {
 public:
  Quiet() {
    if (std::getenv("HWLOC_HIDE_ERRORS") == nullptr) variable_.emplace("HWLOC_HIDE_ERRORS", "2");
  }

 private:
  std::optional<ScopedVariable> variable_;
};

enum class Plugins { kAllowed, kExcluded };

int init_topology(const HwlocLibrary& library, Plugins plugins, hwloc_topology_t* topology) {
  if (plugins == Plugins::kAllowed) return library.topology_init(topology);
  // hwloc_topology_init() opens the plugins of hwloc, with the display and OpenCL libraries that
  // they link. Only this call reads the variable.
  ScopedVariable none("HWLOC_PLUGINS_PATH", "");
  return library.topology_init(topology);
}

Result<HwlocTopology> create(const HwlocLibrary& library, Plugins plugins) {
  hwloc_topology_t topology = nullptr;
  if (init_topology(library, plugins, &topology) != 0) {
    return fail_errno(Code::kSystem, "hwloc_topology_init failed", errno);
  }
  HwlocTopology owned(topology, HwlocTopologyDeleter{&library});
  // Devices and nodes outside the cgroup count too, since rails are those of the whole machine.
  if (library.topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) != 0 ||
      library.topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL) != 0) {
    return fail_errno(Code::kSystem, "hwloc rejected flags or type filter", errno);
  }
  return owned;
}

}  // namespace

Result<const HwlocLibrary*> HwlocLibrary::load() {
  static const Result<HwlocLibrary> loaded = load_once();
  if (!loaded) return tl::unexpected<Error>(loaded.error());
  return &*loaded;
}

Result<HwlocTopology> load_live(const HwlocLibrary& library) {
  for (const char* variable : {"HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_COMPONENTS"}) {
    // Job launchers such as Flux set HWLOC_XMLFILE, usually to a file without I/O devices.
    if (const char* value = std::getenv(variable); value != nullptr && *value != '\0') {
      return fail(Code::kInvalidUsage, std::string(variable) + " is set to " + value +
                                           ", so hwloc would not read this machine: unset it");
    }
  }
  const Quiet quiet;
  auto topology = create(library, Plugins::kExcluded);  // which the live machine does not need
  if (!topology) return topology;
  // Inside a training process nothing may open GPUs or displays (the first six components), or bind
  // the calling thread to one CPU after the other (x86).
  for (const char* component : {"gl", "opencl", "cuda", "nvml", "rsmi", "levelzero", "x86"}) {
    // The call fails for a component that this hwloc was built without.
    (void)library.topology_set_components(topology->get(), HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                          component);
  }
  for (hwloc_obj_type_t type :
       {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE,
        HWLOC_OBJ_L5CACHE, HWLOC_OBJ_L1ICACHE, HWLOC_OBJ_L2ICACHE, HWLOC_OBJ_L3ICACHE,
        HWLOC_OBJ_CORE, HWLOC_OBJ_DIE}) {
    (void)library.topology_set_type_filter(topology->get(), type, HWLOC_TYPE_FILTER_KEEP_NONE);
  }
  if (library.topology_load(topology->get()) != 0) {
    return fail_errno(Code::kSystem, "hwloc cannot read this machine", errno);
  }
  return topology;
}

Result<HwlocTopology> load_xml(const HwlocLibrary& library, const std::string& xml,
                               const std::string& name) {
  const Quiet quiet;
  auto topology = create(library, Plugins::kAllowed);
  if (!topology) return topology;
  int size = static_cast<int>(xml.size() + 1);  // hwloc counts the NUL
  if (library.topology_set_xmlbuffer(topology->get(), xml.c_str(), size) != 0 ||
      library.topology_load(topology->get()) != 0) {
    return fail(
        Code::kInvalidArgument,
        name +
            ": hwloc rejects the file. Expected a file that `lstopo --of xml FILE` of hwloc 1 "
            "or 2 wrote; HWLOC_XML_VERBOSE=1 in the environment shows the reason");
  }
  return topology;
}

}  // namespace gdr::topology
