// How NCCL finds a network plugin: which files each of its releases tries for NCCL_NET_PLUGIN, and
// which tables it looks up, in order. Read from the sources of the releases (src/net.cc up to 2.25,
// src/plugin/net.cc and src/plugin/plugin_open.cc since).
#pragma once

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace gdr {

// What is tried for an entry of NCCL_NET_PLUGIN. The short name of "gdr" is libnccl-net-gdr.so.
enum class NameRule {
  kShortName,                // 2.13 to 2.20: as a short name, whatever it is
  kAnyThenShortName,         // 2.21 to 2.26: the value as it stands, then as a short name
  kLibraryOrShortName,       // 2.27.3: lib*.so as it stands, anything else as a short name
  kAnyThenShortNameOfAWord,  // since 2.27.5: as 2.21, but a path or lib*.so only as it stands
};

struct NcclRelease {
  std::string name;
  NameRule rule;
  bool takes_list;          // NCCL_NET_PLUGIN=a,b
  std::vector<int> tables;  // in the order in which they are looked up
};
inline std::ostream& operator<<(std::ostream& out, const NcclRelease& release) {
  return out << "NCCL " << release.name;
}

// One of each kind of release, oldest first.
const std::vector<NcclRelease>& nccl_releases();

// The files that a release gives to dlopen(3), in order, for one entry of the list.
std::vector<std::string> files_to_try(NameRule rule, const std::string& entry);

struct LibraryCloser {
  void operator()(void* library) const;
};
using Library = std::unique_ptr<void, LibraryCloser>;

// A plugin as a release found it.
struct LoadedPlugin {
  std::string file;
  Library library;
  int version;        // of the table
  const void* table;  // ncclNet_v<version>_t
};

// The plugins that a release finds for a value of NCCL_NET_PLUGIN, in its order. Entries without a
// file, and files without a table that it knows, are left out.
std::vector<LoadedPlugin> load_plugins(const NcclRelease& release, const std::string& value);

}  // namespace gdr
