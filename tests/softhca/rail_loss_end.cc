// What rail_loss.py runs: an end of two connections, one in each direction, and what its seed
// stands for.
//
//   rail_loss_end run SEED|SCENARIO END PLUGIN FAULTS_FILE
//   rail_loss_end describe SEED
//
// SCENARIO is a JSON object of soak.py. An end appends faults to FAULTS_FILE while it runs. It
// speaks with the process that started it in lines: prints "handle <hex>" and reads "peer <hex>";
// prints "done <JSON>" and reads "close"; prints "closed <JSON>".
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "drivers/cuda/cuda_driver.h"
#include "tests/softhca/rail_loss_log.h"
#include "tests/softhca/rail_loss_side.h"
#include "tools/net/plugin_loader.h"

namespace gdr::rail_loss {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

// Without progress for so long, a run hangs.
constexpr std::chrono::seconds kPatience{20};
// A rail that is up is used again after a second.
constexpr std::chrono::milliseconds kPause{1800};
constexpr size_t kHandleBytes = 128;

double to_ms(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

std::string to_hex(const std::array<char, kHandleBytes>& bytes) {
  std::string text;
  for (char byte : bytes) text += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  return text;
}

std::array<char, kHandleBytes> from_hex(const std::string& text) {
  std::array<char, kHandleBytes> bytes{};
  for (size_t i = 0; i < kHandleBytes && 2 * i + 2 <= text.size(); ++i) {
    bytes[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return bytes;
}

// Something between the ends closes their sockets: every TCP connection of this process ends, by a
// FIN or by a reset.
void lose_sockets(bool reset) {
  const sockaddr no_peer{.sa_family = AF_UNSPEC, .sa_data = {}};
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename().string());
    sockaddr_storage peer{};
    socklen_t bytes = sizeof(peer);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) continue;
    if (peer.ss_family != AF_INET && peer.ss_family != AF_INET6) continue;
    if (reset) {
      connect(fd, &no_peer, sizeof(no_peer));
    } else {
      shutdown(fd, SHUT_RDWR);
    }
  }
}

// Stops this process for a time, and all of its threads.
void stop(int ms) {
  const std::string command =
      fmt::format("(kill -STOP $PPID; sleep {}.{:03}; kill -CONT $PPID)", ms / 1000, ms % 1000);
  (void)!std::system((command + " </dev/null >/dev/null 2>&1 &").c_str());
}

struct EndArguments {
  Scenario scenario;
  int end = 0;
  std::string plugin;
  std::string faults_file;
};

class End {
 public:
  explicit End(const EndArguments& arguments)
      : arguments_(arguments), scenario_(arguments.scenario), random_(scenario_.seed) {}

  int run();

 private:
  bool open();
  bool set_up_gpu();
  bool choose_device(int* device);
  bool exchange_handles(void* listener, char* handle);
  void connect();
  void drive();
  bool drive_until(bool whole);
  size_t limit(const Side& side, bool whole) const {
    return whole ? side.groups() : side.groups() / 2;
  }
  bool is_over(bool whole) const;
  bool is_waiting() const;
  void on_completion();
  void cause(const json& fault);
  void cause_faults();
  std::string state() const;
  json result() const;
  void close();

  const EndArguments arguments_;
  const Scenario scenario_;
  Random random_;
  std::unique_ptr<tools::Plugin> plugin_;
  std::unique_ptr<cuda::GpuWorkspace> gpu_;
  void* context_ = nullptr;
  int device_ = 0;
  alignas(8) std::array<char, kHandleBytes> peer_{};
  tools::NetComm listener_;
  std::vector<std::unique_ptr<Side>> sides_;
  std::vector<std::pair<int, std::string>> errors_;
  std::string hung_;
  std::vector<bool> caused_;
  bool sockets_lost_ = false;
  bool paused_ = false;
  size_t completed_before_pause_ = 0;
  double stall_ms_ = 0;
  Clock::time_point last_{};
};

bool End::set_up_gpu() {
  if (scenario_.memory == MemoryKind::kHost) return true;
  if (!cuda::CudaDriver::shared()) return false;
  auto gpu = cuda::GpuWorkspace::open(*cuda::CudaDriver::shared(), 0);
  if (!gpu || !gpu->set_current()) return false;
  gpu_ = std::make_unique<cuda::GpuWorkspace>(std::move(*gpu));
  return true;
}

bool End::choose_device(int* device) {
  *device = 0;
  if (scenario_.merged == 0) return true;
  tools::MergedDevices merged;
  merged.count = scenario_.merged;
  std::iota(merged.devices.begin(), merged.devices.end(), 0);
  return plugin_->net().make_v_device(device, merged) == abi::ncclSuccess;
}

bool End::open() {
  if (!set_up_gpu()) return false;
  auto plugin = tools::Plugin::load(arguments_.plugin, scenario_.table);
  if (!plugin) return false;
  plugin_ = std::make_unique<tools::Plugin>(std::move(*plugin));
  tools::InitArguments settings;
  settings.logger = Log::logger;
  int devices = 0;
  return plugin_->net().init(settings, &context_) == abi::ncclSuccess &&
         plugin_->net().devices(&devices) == abi::ncclSuccess && devices == scenario_.rails &&
         choose_device(&device_);
}

bool End::exchange_handles(void* listener, char* handle) {
  listener_ = tools::own_listen(plugin_->net(), listener);
  std::array<char, kHandleBytes> own{};
  std::copy_n(handle, kHandleBytes, own.begin());
  std::cout << "handle " << to_hex(own) << std::endl;
  std::string word, hex;
  if (!(std::cin >> word >> hex) || word != "peer") return false;
  peer_ = from_hex(hex);
  return true;
}

void End::connect() {
  tools::Net& net = plugin_->net();
  void *sender = nullptr, *receiver = nullptr;
  const int sends = arguments_.end, receives = 1 - arguments_.end;
  const auto limit = Clock::now() + kPatience;
  bool connecting = true, accepting = true;
  while (connecting || accepting) {
    if (Clock::now() > limit) {
      hung_ = "the connections are not made";
      break;
    }
    if (connecting) {
      const auto result = net.connect(context_, device_, peer_.data(), &sender);
      if (result != abi::ncclSuccess) errors_.emplace_back(sends, "connect");
      connecting = result == abi::ncclSuccess && sender == nullptr;
    }
    if (accepting) {
      const auto result = net.accept(listener_.get(), &receiver);
      if (result != abi::ncclSuccess) errors_.emplace_back(receives, "accept");
      accepting = result == abi::ncclSuccess && receiver == nullptr;
    }
    usleep(100);
  }
  if (sender != nullptr) {
    sides_.push_back(std::make_unique<Sender>(net, scenario_, sends, sender));
  }
  if (receiver != nullptr) {
    sides_.push_back(std::make_unique<Receiver>(net, scenario_, receives, receiver));
  }
}

bool End::is_over(bool whole) const {
  return std::ranges::all_of(sides_,
                             [&](const auto& side) { return side->is_over(limit(*side, whole)); });
}

bool End::is_waiting() const {
  return std::ranges::any_of(sides_, [](const auto& side) { return side->is_waiting(); });
}

void End::cause(const json& fault) {
  Log::note("fault caused: " + fault.dump());
  if (fault["kind"] == "stop") return stop(fault["ms"]);
  if (fault["kind"] == "sockets") return lose_sockets(fault["reset"]);
  std::ofstream(arguments_.faults_file, std::ios::app) << fault.dump() << std::endl;
}

void End::cause_faults() {
  size_t completed = 0;
  for (const auto& side : sides_) completed += side->completed();
  caused_.resize(scenario_.faults.size());
  for (size_t i = 0; i < scenario_.faults.size(); ++i) {
    const Fault& fault = scenario_.faults[i];
    if (caused_[i] || fault.end != arguments_.end || fault.at_message < 0) continue;
    if (fault.after_pause && !paused_) continue;
    const size_t since = fault.after_pause ? completed - completed_before_pause_ : completed;
    if (since < static_cast<size_t>(fault.at_message)) continue;
    caused_[i] = true;
    cause(fault.json);
  }
  const int at = scenario_.socket_lost_at;
  if (!sockets_lost_ && at >= 0 && completed >= static_cast<size_t>(at)) {
    sockets_lost_ = true;
    cause({{"kind", "sockets"}, {"reset", false}});
  }
}

void End::on_completion() {
  const Clock::time_point now = Clock::now();
  stall_ms_ = std::max(stall_ms_, to_ms(now - last_));
  cause_faults();
  const int slow = scenario_.slow_one_in[static_cast<size_t>(arguments_.end)];
  if (slow != 0 && random_() % static_cast<uint64_t>(slow) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + random_() % 20));
  }
  last_ = Clock::now();
}

// Returns false when it hangs.
bool End::drive_until(bool whole) {
  last_ = Clock::now();
  Clock::time_point moved_at = last_;
  for (int idle = 0; !is_over(whole); ++idle) {
    Step most = Step::kNothing;
    for (const auto& side : sides_) most = std::max(most, side->step(limit(*side, whole)));
    if (most == Step::kCompleted) on_completion();
    if (!is_waiting()) last_ = Clock::now();
    if (most != Step::kNothing) {
      idle = 0;
      moved_at = Clock::now();
    } else if (idle > 50) {
      usleep(idle > 500 ? 200 : 20);
      if (Clock::now() - moved_at > kPatience) return false;
    }
  }
  return true;
}

void End::drive() {
  if (scenario_.pauses) {
    if (!drive_until(false)) {
      hung_ = state();
      return;
    }
    for (const auto& side : sides_) completed_before_pause_ += side->completed();
    std::this_thread::sleep_for(kPause);
    Log::note("the pause is over");
    paused_ = true;
    cause_faults();
  }
  if (!drive_until(true)) hung_ = state();
}

std::string End::state() const {
  std::string text;
  for (const auto& side : sides_) {
    text += fmt::format(
        "{}connection {} {}: {} of {} messages complete, {} requests outstanding",
        text.empty() ? "" : "; ", side->connection(),
        side->connection() == arguments_.end ? "sender" : "receiver", side->completed(),
        scenario_.traffic[static_cast<size_t>(side->connection())].messages, side->outstanding());
  }
  return text;
}

json End::result() const {
  json errors = json::array();
  for (const auto& [connection, text] : errors_) errors.push_back({connection, text});
  std::string wrong;
  for (const auto& side : sides_) {
    if (side->failed()) errors.push_back({side->connection(), side->error()});
    if (wrong.empty()) wrong = side->wrong();
  }
  return {{"errors", errors},
          {"wrong", wrong},
          {"hung", hung_},
          {"stall_ms", stall_ms_},
          {"warnings", Log::warnings()}};
}

void End::close() {
  for (const auto& side : sides_) side->check_memory();
  std::string wrong;
  for (const auto& side : sides_) {
    if (wrong.empty()) wrong = side->wrong();
    side->close();
  }
  listener_.reset();
  plugin_->net().finalize(context_);
  std::cout << "closed "
            << json{{"wrong", wrong}, {"lost", Log::lost()}, {"returned", Log::returned()}}.dump()
            << std::endl;
}

int End::run() {
  if (!open()) return 2;
  alignas(8) std::array<char, kHandleBytes> handle{};
  void* listener = nullptr;
  if (plugin_->net().listen(context_, device_, handle.data(), &listener) != abi::ncclSuccess) {
    return 2;
  }
  if (!exchange_handles(listener, handle.data())) return 2;
  cause_faults();
  if (random_() % 2 == 0) usleep(2000);  // a fault of the file happens within a millisecond
  connect();
  Log::note("connected");
  if (hung_.empty()) drive();
  Log::note("done: " + result().dump());
  std::cout << "done " << result().dump() << std::endl;
  std::string word;
  if (!(std::cin >> word) || word != "close") return 2;
  close();
  return 0;
}

int run_main(const std::vector<std::string>& words) {
  if (words.size() == 5 && words[0] == "run") {
    const Scenario scenario = words[1].starts_with('{') ? read_scenario(json::parse(words[1]))
                                                        : make_scenario(std::stoull(words[1]));
    return End({scenario, std::stoi(words[2]), words[3], words[4]}).run();
  }
  if (words.size() != 2 || words[0] != "describe") return 2;
  std::cout << describe(make_scenario(std::stoull(words[1]))).dump() << std::endl;
  return 0;
}

}  // namespace
}  // namespace gdr::rail_loss

int main(int count, char** words) { return gdr::rail_loss::run_main({words + 1, words + count}); }
