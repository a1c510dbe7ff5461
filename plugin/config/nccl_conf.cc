#include "plugin/config/nccl_conf.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace gdr::config {
namespace {

constexpr size_t kMaxFile = 16 << 20;  // bytes that are read, to the end of a line

void add_line(std::string line, const ConfPlace& place, Environment* environment,
              ConfPlaces* places) {
  if (!line.empty() && line.back() == '\r') line.pop_back();
  size_t equals = line.find('=');
  if (line.starts_with('#') || equals == std::string::npos) return;
  std::string name = line.substr(0, equals);
  if (!name.starts_with("NCCL_") && !name.starts_with("GDR_NCCL_")) return;
  if (places != nullptr) places->emplace(name, place);
  environment->emplace(std::move(name), line.substr(equals + 1));
}

}  // namespace

std::vector<std::string> nccl_conf_files(const Environment& environment, const std::string& home) {
  std::vector<std::string> files;
  auto named = environment.find("NCCL_CONF_FILE");
  if (named != environment.end() && !named->second.empty()) {
    files.push_back(named->second);
  } else if (!home.empty()) {
    files.push_back(home + "/.nccl.conf");
  }
  files.emplace_back("/etc/nccl.conf");
  return files;
}

void add_nccl_conf(const std::string& file, Environment* environment, ConfPlaces* places) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return;
  std::ifstream stream(file);
  size_t size = 0;
  ConfPlace place{file, 0};
  for (std::string line; size < kMaxFile && std::getline(stream, line);) {
    size += line.size() + 1;
    ++place.line;
    add_line(std::move(line), place, environment, places);
  }
}

Environment process_environment_with_nccl_conf(ConfPlaces* places) {
  Environment environment = process_environment();
  const char* home = std::getenv("HOME");
  for (const std::string& file : nccl_conf_files(environment, home != nullptr ? home : "")) {
    add_nccl_conf(file, &environment, places);
  }
  return environment;
}

}  // namespace gdr::config
