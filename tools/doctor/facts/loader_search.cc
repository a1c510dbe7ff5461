#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <system_error>

#include "tools/doctor/facts/library_facts.h"
#include "tools/inspection/file_content.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;

// struct cache_file_new and struct file_entry_new of glibc's sysdeps/generic/dl-cache.h.
constexpr char kCacheMagic[] = "glibc-ld.so.cache1.1";
constexpr size_t kCacheHeader = 48;
constexpr size_t kCacheEntry = 24;
constexpr size_t kCacheCount = 20;  // position of the number of entries
constexpr size_t kEntryName = 4;    // position of the offset of the name within an entry
constexpr size_t kEntryPath = 8;

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

uint32_t number_at(const std::string& text, size_t at) {
  uint32_t value = 0;
  if (at + sizeof value <= text.size()) std::memcpy(&value, text.data() + at, sizeof value);
  return value;
}

// Returns the text up to the next '\0', "" beyond the end.
std::string text_at(const std::string& cache, size_t at) {
  if (at >= cache.size()) return "";
  return cache.substr(at, cache.find('\0', at) - at);
}

class Search {
 public:
  Search(fs::path root, std::string name) : root_(std::move(root)), name_(std::move(name)) {}

  void add(const std::string& file, const char* by) {
    std::error_code error;
    const fs::path path = root_ / fs::path(file).relative_path();
    const fs::path real = fs::canonical(path, error);
    if (error || std::find(seen_.begin(), seen_.end(), real) != seen_.end()) return;
    if (!read_elf_file(real).has_value()) return;
    seen_.push_back(real);
    found_.push_back({file, by});
  }

  // Folders are separated by ':' or ';'; relative ones are below `current`, if that is known. An
  // empty list has no folder, an empty folder in another list is the current one.
  void add_folders(const std::string& list, const char* by, const fs::path& current = {}) {
    if (list.empty()) return;
    for (size_t begin = 0; begin <= list.size();) {
      const size_t end = std::min(list.find_first_of(":;", begin), list.size());
      const fs::path folder = current / list.substr(begin, end - begin);
      if (folder.is_absolute()) add((folder / name_).lexically_normal().string(), by);
      begin = end + 1;
    }
  }

  std::vector<FoundFile> found() && { return std::move(found_); }

 private:
  fs::path root_;
  std::string name_;
  std::vector<fs::path> seen_;
  std::vector<FoundFile> found_;
};

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

std::vector<std::string> paths_in_cache(const std::string& content, const std::string& name) {
  const size_t start = content.find(kCacheMagic);
  if (start == std::string::npos) return {};
  const std::string cache = content.substr(start);
  const size_t entries =
      cache.size() < kCacheHeader ? 0 : (cache.size() - kCacheHeader) / kCacheEntry;
  const size_t count = std::min<size_t>(number_at(cache, kCacheCount), entries);
  std::vector<std::string> paths;
  for (size_t i = 0; i < count; ++i) {
    const size_t entry = kCacheHeader + i * kCacheEntry;
    if (text_at(cache, number_at(cache, entry + kEntryName)) != name) continue;
    paths.push_back(text_at(cache, number_at(cache, entry + kEntryPath)));
  }
  return paths;
}

std::vector<FoundFile> find_library(const fs::path& root, const std::string& name,
                                    const std::string& ld_library_path,
                                    const fs::path& current_folder) {
  Search search(root, name);
  search.add_folders(ld_library_path, "LD_LIBRARY_PATH", current_folder);
  const std::string cache = topo::file_content(root / "etc/ld.so.cache").value_or("");
  for (const std::string& path : paths_in_cache(cache, name)) search.add(path, "/etc/ld.so.cache");
  search.add_folders("/lib64:/usr/lib64:/lib:/usr/lib", "default folder");
  return std::move(search).found();
}

}  // namespace gdr::tools::doctor
