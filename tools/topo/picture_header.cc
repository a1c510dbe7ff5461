#include "tools/topo/picture_header.h"

#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <set>

namespace gdr::tools::topo {
namespace {

std::string host_part(const Machine& machine) {
  if (machine.hosts > 1) {
    return fmt::format("host {} of {}", machine.host.empty() ? "?" : machine.host, machine.hosts);
  }
  return machine.host.empty() ? "" : "host " + machine.host;
}

std::string cpu_part(const Machine& machine) {
  const topology::Cpu& cpu = machine.cpu;
  std::string text;
  if (!machine.packages.empty()) text = fmt::format("{} x ", machine.packages.size());
  if (cpu.vendor.empty() && cpu.arch.empty()) return "CPU unknown";
  text += cpu.vendor.empty() ? "CPU" : cpu.vendor;
  if (!cpu.arch.empty()) text += " " + cpu.arch;
  if (cpu.family > 0) text += fmt::format(" family {} model {}", cpu.family, cpu.model);
  return text;
}

std::string gpu_part(const Machine& machine) {
  std::set<std::string> models;
  for (const Gpu& gpu : machine.gpus) models.insert(gpu.model);
  const bool one_model = models.size() == 1 && !models.begin()->empty();
  return fmt::format("{} GPU{}{}", machine.gpus.size(), machine.gpus.size() == 1 ? "" : "s",
                     one_model ? " (" + *models.begin() + ")" : "");
}

}  // namespace

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) {
    if (text.empty()) continue;
    all += (all.empty() ? "" : "  \u00b7  ") + text;
  }
  return all;
}

std::vector<std::string> header_lines(const RailDecision& decision, const std::string& date) {
  const Machine& machine = decision.machine;
  const topology::nccl::Settings& settings = decision.prediction.settings();
  const size_t hcas = machine.hcas.size();
  return {
      "Rails: " + machine.source,
      joined({host_part(machine), cpu_part(machine), gpu_part(machine),
              fmt::format("{} HCA{}", hcas, hcas == 1 ? "" : "s")}),
      joined({release_text(settings), settings.gdr_level ? "" : "NCCL_NET_GDR_LEVEL unset", date})};
}

std::string picture_date() {
  std::time_t now = std::time(nullptr);
  if (const char* epoch = std::getenv("SOURCE_DATE_EPOCH"); epoch != nullptr && *epoch != '\0') {
    now = static_cast<std::time_t>(std::strtoll(epoch, nullptr, 10));
  }
  std::tm utc{};
  if (gmtime_r(&now, &utc) == nullptr) return "";
  return fmt::format("{:04}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
}

}  // namespace gdr::tools::topo
