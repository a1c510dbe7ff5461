// The libraries as the loader finds them. They are read as files and not loaded: constructors of
// plugins and of NCCL do not run here, and it takes milliseconds.
#pragma once

#include <filesystem>
#include <optional>
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

// Where the dynamic loader finds a library, as ld.so(8) describes it: LD_LIBRARY_PATH, the cache of
// ldconfig, the default folders. The search opens nothing by dlopen(). What a program adds for
// itself (DT_RPATH, DT_RUNPATH), as those of PyTorch do, is not known here.
struct FoundFile {
  std::string file;  // "/usr/lib/x86_64-linux-gnu/libibverbs.so.1", without the root
  std::string by;    // "LD_LIBRARY_PATH", "/etc/ld.so.cache", "default folder"
};

// Returns all files of that name in the loader's order, each once; the first is the one that is
// loaded. Only libraries of 64 bits count. Relative folders of `ld_library_path`, and empty ones,
// which stand for the current folder, count only where that is known.
std::vector<FoundFile> find_library(const std::filesystem::path& root, const std::string& name,
                                    const std::string& ld_library_path,
                                    const std::filesystem::path& current_folder = {});

// Returns the paths that the cache's content has for a library, in its order. Empty for a content
// that is not a cache of glibc 2.2 or later.
std::vector<std::string> paths_in_cache(const std::string& cache, const std::string& name);

// Parts of a shared library, read from its file. Nothing is loaded, so that no constructor of a
// foreign library runs in the doctor, and a library of several hundred MB takes milliseconds.
struct ElfFile {
  std::string names;      // .dynstr: the names of symbols, versions and libraries, each with a '\0'
  std::string constants;  // .rodata, its first 64 MiB; "" without that section

  // Whether the library exports or uses this name.
  bool has_name(const std::string& name) const;
};

// Reads a library of 64 bits, least significant byte first. Nothing for any other file.
std::optional<ElfFile> read_elf_file(const std::filesystem::path& file);

}  // namespace gdr::tools::doctor
