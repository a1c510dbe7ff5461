#include "tools/doctor/facts/elf_file.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <vector>

namespace gdr::tools::doctor {
namespace {

constexpr uint64_t kMostElfBytes = 64 << 20;  // of a section
constexpr int kMostElfSections = 4096;

// Returns `bytes` from `offset` on, "" where the file ends before that.
std::string elf_bytes(std::ifstream* stream, uint64_t offset, uint64_t bytes) {
  std::string text(std::min(bytes, kMostElfBytes), '\0');
  stream->clear();
  stream->seekg(static_cast<std::streamoff>(offset));
  if (!stream->read(text.data(), static_cast<std::streamsize>(text.size()))) return "";
  return text;
}

template <class T>
std::optional<T> elf_struct(std::ifstream* stream, uint64_t offset) {
  const std::string bytes = elf_bytes(stream, offset, sizeof(T));
  if (bytes.size() != sizeof(T)) return {};
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

bool is_usable(const Elf64_Ehdr& header) {
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
         header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB &&
         header.e_shentsize == sizeof(Elf64_Shdr) && header.e_shnum < kMostElfSections;
}

}  // namespace

bool ElfFile::has_name(const std::string& name) const {
  const std::string whole = '\0' + name + '\0';
  return names.find(whole) != std::string::npos;
}

std::optional<ElfFile> read_elf_file(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return {};
  std::ifstream stream(file, std::ios::binary);
  const auto header = elf_struct<Elf64_Ehdr>(&stream, 0);
  if (!header || !is_usable(*header)) return {};
  const auto section_at = [&](size_t index) {
    return elf_struct<Elf64_Shdr>(&stream, header->e_shoff + index * sizeof(Elf64_Shdr));
  };
  const auto names_section = section_at(header->e_shstrndx);
  if (!names_section) return {};
  const std::string names = elf_bytes(&stream, names_section->sh_offset, names_section->sh_size);
  ElfFile found;
  for (size_t i = 0; i < header->e_shnum; ++i) {
    const auto section = section_at(i);
    if (!section || section->sh_name >= names.size() || section->sh_type == SHT_NOBITS) continue;
    const std::string name = names.c_str() + section->sh_name;
    if (name == ".dynstr") found.names = elf_bytes(&stream, section->sh_offset, section->sh_size);
    if (name == ".rodata") {
      found.constants = elf_bytes(&stream, section->sh_offset, section->sh_size);
    }
  }
  if (found.names.empty()) return {};
  return found;
}

}  // namespace gdr::tools::doctor
