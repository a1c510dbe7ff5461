// Parts of a shared library, read from its file. Nothing is loaded, so that no constructor of a
// foreign library runs in the doctor, and a library of several hundred MB takes milliseconds.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace gdr::tools::doctor {

struct ElfFile {
  std::string names;      // .dynstr: the names of symbols, versions and libraries, each with a '\0'
  std::string constants;  // .rodata, its first 64 MiB; "" where there is none

  // Whether the library exports or uses this name.
  bool has_name(const std::string& name) const;
};

// Reads a library of 64 bits, least significant byte first. Nothing for any other file.
std::optional<ElfFile> read_elf_file(const std::filesystem::path& file);

}  // namespace gdr::tools::doctor
