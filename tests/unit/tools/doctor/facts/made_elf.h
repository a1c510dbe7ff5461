// The bytes of a shared library for the tests: as much of one as the doctor reads.
#pragma once

#include <elf.h>

#include <cstring>
#include <string>

namespace gdr::tools::doctor {

// `names` and `constants` become the sections .dynstr and .rodata.
inline std::string made_elf(const std::string& names, const std::string& constants) {
  using std::string_literals::operator""s;
  const std::string section_names = "\0.dynstr\0.rodata\0.shstrtab\0"s;
  const std::string contents[] = {names, constants, section_names};
  const uint32_t name_at[] = {1, 9, 17};
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shstrndx = 2;
  header.e_shoff = sizeof header;
  std::string text(reinterpret_cast<const char*>(&header), sizeof header);
  uint64_t offset = sizeof header + 3 * sizeof(Elf64_Shdr);
  for (int i = 0; i < 3; ++i) {
    Elf64_Shdr section{};
    section.sh_name = name_at[i];
    section.sh_type = SHT_PROGBITS;
    section.sh_offset = offset;
    section.sh_size = contents[i].size();
    offset += contents[i].size();
    text.append(reinterpret_cast<const char*>(&section), sizeof section);
  }
  return text + names + constants + section_names;
}

// A library that exports one name.
inline std::string made_library(const std::string& name = "function") {
  return made_elf('\0' + name + '\0', "constant");
}

}  // namespace gdr::tools::doctor
