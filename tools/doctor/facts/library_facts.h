// The libraries as the loader finds them. They are read as files and not loaded: constructors of
// plugins and of NCCL do not run here, and it takes milliseconds.
#pragma once

#include <string>
#include <vector>

namespace gdr::tools::doctor {

struct Host;

struct LibraryFile {
  std::string file;                  // "/usr/lib/libnccl.so.2"
  std::string found_by;              // "LD_LIBRARY_PATH", "/etc/ld.so.cache", "Python"
  std::string version;               // "2.28.9"; "": unknown
  std::vector<int> net_tables = {};  // of a network plugin: 8 for ncclNetPlugin_v8, ascending
  bool is_software_hca = false;      // the software HCA of this project
  bool is_this_plugin = false;       // whether it reads the variables of this project's plugin
};

using LibraryFiles = std::vector<LibraryFile>;  // in the loader's order

struct LibraryFacts {
  bool is_known = false;        // whether it was looked for the libraries at all
  LibraryFiles verbs;           // libibverbs.so.1, or what NCCL_IBVERBS_LIB names
  LibraryFiles nccl;            // libnccl.so.2 of the loader, then those of Python's packages
  LibraryFiles gdr_plugin;      // libnccl-net-gdr.so
  LibraryFiles default_plugin;  // libnccl-net.so
  // The files of other plugins that NCCL_NET_PLUGIN names by a name, and the loader does not find.
  std::vector<std::string> missing_plugins;
  std::string own_plugin;  // libnccl-net-gdr.so beside this program; "": there is none
};

// Reads them; `host` has its root, environment and topology already.
LibraryFacts read_library_facts(const Host& host);

// Reads what the file shows of a library with that name; `root` is that of the machine.
LibraryFile read_library(const std::string& root, const std::string& file,
                         const std::string& found_by);

// Returns 22809 for "2.28.9", as NCCL_VERSION() counts; 0 for other text.
int nccl_version_code(const std::string& version);

}  // namespace gdr::tools::doctor
