#include "plugin/stats_text.h"

#include <unistd.h>

#include <initializer_list>
#include <utility>

namespace gdr::plugin {
namespace {

using transport::RailName;
using transport::RailSums;
using transport::RegistrationCounts;
using transport::RegistrationPath;

constexpr auto kDirections = {std::pair{&RailSums::sent, "sent"},
                              std::pair{&RailSums::received, "received"}};
// The values of GDR_NCCL_GPU_MEMORY.
constexpr auto kGpuPaths = {std::pair{RegistrationPath::kDmaBuf, "dmabuf"},
                            std::pair{RegistrationPath::kPeermem, "peermem"}};

// The value is a number, a fixed word, or the name that the kernel gave a device: nothing that has
// to be escaped.
struct StatsLabel {
  const char* name;
  std::string value;
};

// Builds the text. All series of a metric follow its begin().
class StatsPage {
 public:
  explicit StatsPage(int process) : process_{"process", std::to_string(process)} {}

  void begin(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }
  void add(std::initializer_list<StatsLabel> labels, uint64_t value) {
    text_ += name_ + "{" + text_of(process_);
    for (const StatsLabel& label : labels) text_ += "," + text_of(label);
    text_ += "} " + std::to_string(value) + "\n";
  }
  std::string take() { return std::move(text_); }

 private:
  static std::string text_of(const StatsLabel& label) {
    return std::string(label.name) + "=\"" + label.value + "\"";
  }

  const StatsLabel process_;
  std::string name_;
  std::string text_;
};

StatsLabel device_label(const RailName& rail) { return {"device", rail.hca}; }
StatsLabel port_label(const RailName& rail) { return {"port", std::to_string(rail.port)}; }

void add_moved(const transport::ProcessSums& sums, uint64_t RailSums::Moved::*field,
               StatsPage* page) {
  for (const auto& [rail, of_rail] : sums.rails) {
    for (const auto& [direction, name] : kDirections) {
      page->add({device_label(rail), port_label(rail), {"direction", name}},
                (of_rail.*direction).*field);
    }
  }
}

void add_by_rail(const transport::ProcessSums& sums, uint64_t RailSums::*field, StatsPage* page) {
  for (const auto& [rail, of_rail] : sums.rails) {
    page->add({device_label(rail), port_label(rail)}, of_rail.*field);
  }
}

void add_rails(const transport::ProcessSums& sums, StatsPage* page) {
  page->begin("nccl_gdr_bytes_total", "counter",
              "Data of NCCL's messages that a port has moved: sent and acknowledged, or received.");
  add_moved(sums, &RailSums::Moved::bytes, page);
  page->begin("nccl_gdr_messages_total", "counter",
              "RDMA messages with that data: one for each message of NCCL's, or one for each of "
              "its chunks where it is split.");
  add_moved(sums, &RailSums::Moved::messages, page);
  page->begin("nccl_gdr_recoveries_total", "counter",
              "Queue pairs of a port that were lost, and whose data another rail took over.");
  add_by_rail(sums, &RailSums::losses, page);
  page->begin("nccl_gdr_returns_total", "counter",
              "Queue pairs of a port that were lost and are used again.");
  add_by_rail(sums, &RailSums::returns, page);
}

void add_registrations(const transport::TransportStats& stats, StatsPage* page) {
  page->begin("nccl_gdr_registrations_total", "counter",
              "Buffers that were registered on an HCA: GPU memory by dmabuf or peermem (GPUDirect "
              "RDMA), and host memory.");
  for (const auto& [hca, counts] : stats.registrations) {
    for (const auto& [path, name] : kGpuPaths) {
      page->add({{"device", hca}, {"path", name}}, counts.gpu[static_cast<size_t>(path)]);
    }
    page->add({{"device", hca}, {"path", "host"}}, counts.host);
  }
  page->begin("nccl_gdr_registered_gpu_bytes", "gauge",
              "GPU memory that is registered on an HCA now, which takes room in the GPU's BAR1.");
  for (const auto& [hca, bytes] : stats.registered_gpu_bytes) page->add({{"device", hca}}, bytes);
}

void add_events(const transport::ProcessSums& sums, StatsPage* page) {
  page->begin("nccl_gdr_stalls_total", "counter",
              "Episodes without progress that the watchdog has logged (GDR_NCCL_WATCHDOG_SEC).");
  page->add({}, sums.stalls);
  page->begin("nccl_gdr_failed_connections_total", "counter",
              "Connections that have failed, each of which ends a communicator.");
  page->add({}, sums.failed);
  page->begin("nccl_gdr_connections", "gauge", "Connections that are open.");
  page->add({}, sums.connections);
}

}  // namespace

std::string stats_text(const transport::TransportStats& stats, int number) {
  StatsPage page(number);
  page.begin("nccl_gdr_info", "gauge", "The process that the other series are of. Always 1.");
  page.add({{"pid", std::to_string(getpid())}, {"version", GDR_VERSION}}, 1);
  add_rails(stats.sums, &page);
  add_registrations(stats, &page);
  add_events(stats.sums, &page);
  return page.take();
}

}  // namespace gdr::plugin
