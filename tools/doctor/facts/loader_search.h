// Where the dynamic loader finds a library, as ld.so(8) describes it: LD_LIBRARY_PATH, the cache of
// ldconfig, the default folders. The search opens nothing by dlopen(). What a program adds for
// itself (DT_RPATH, DT_RUNPATH), as those of PyTorch do, is not known here.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace gdr::tools::doctor {

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
