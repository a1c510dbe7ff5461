// Starts the measurements of --burn-in.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

#include "tools/common/exit_codes.h"
#include "tools/doctor/burn_in.h"
#include "tools/topo/labels.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;

constexpr int kFirstBurnInPort = 29500;
constexpr int kMostBurnInPort = 65535 - 1024;  // so that every measurement has one

// Whether an address belongs to this machine: a socket can be bound to it.
bool is_own_address(const addrinfo& address) {
  const int socket_fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_fd < 0) return false;
  const bool is_own = bind(socket_fd, address.ai_addr, address.ai_addrlen) == 0;
  close(socket_fd);
  return is_own;
}

// The files of one measurement, removed at the end.
class BurnInFolder {
 public:
  BurnInFolder() {
    std::error_code failed;
    std::string pattern = (fs::temp_directory_path(failed) / "nccl-gdr-XXXXXX").string();
    if (!failed && mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~BurnInFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  BurnInFolder(const BurnInFolder&) = delete;
  BurnInFolder& operator=(const BurnInFolder&) = delete;

  bool exists() const { return !path_.empty(); }
  std::string file(const char* name) const { return (path_ / name).string(); }
  std::string read(const char* name) const {
    std::ifstream stream(path_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }

 private:
  fs::path path_;
};

// Becomes this program with the arguments, its output in the file. CUDA then counts GPUs by their
// PCI addresses, as the topology does.
[[noreturn]] void become(const std::vector<std::string>& arguments, const std::string& output) {
  const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || dup2(file, STDOUT_FILENO) < 0 || dup2(file, STDERR_FILENO) < 0) _exit(127);
  setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
  std::vector<char*> argv;
  for (const std::string& one : arguments) argv.push_back(const_cast<char*>(one.c_str()));
  argv.push_back(nullptr);
  execv("/proc/self/exe", argv.data());
  _exit(127);
}

// Returns its exit status; -1 where it was not started or was ended by a signal.
int run_self(std::vector<std::string> arguments, const std::string& output) {
  arguments.insert(arguments.begin(), "nccl-gdr");
  const pid_t child = fork();
  if (child < 0) return -1;
  if (child == 0) become(arguments, output);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The errors of perf, which begin with the program's name, in one line.
std::string errors_in(const std::string& output, int status) {
  std::istringstream lines(output);
  std::string errors;
  for (std::string line; std::getline(lines, line);) {
    constexpr char kPrefix[] = "nccl-gdr: ";
    if (!line.starts_with(kPrefix)) continue;
    errors += (errors.empty() ? "" : "; ") + line.substr(sizeof kPrefix - 1);
  }
  if (!errors.empty()) return topo::clean_text(errors);
  return fmt::format("nccl-gdr perf ended with status {}", status);
}

}  // namespace

Result<BurnInPeer> parse_burn_in_peer(const std::string& text) {
  BurnInPeer peer;
  if (text == "local") return peer;
  peer.is_local = false;
  peer.port = kFirstBurnInPort;
  std::string host = text;
  if (const size_t colon = text.rfind(':'); colon != std::string::npos) {
    host = text.substr(0, colon);
    char* end = nullptr;
    const long port = std::strtol(text.c_str() + colon + 1, &end, 10);
    if (end == text.c_str() + colon + 1 || *end != '\0' || port < 1 || port > kMostBurnInPort) {
      return fail(Code::kInvalidArgument,
                  fmt::format("\"{}\": the port is no number from 1 to {}", text, kMostBurnInPort));
    }
    peer.port = static_cast<int>(port);
  }
  addrinfo hints = {};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return fail(Code::kInvalidArgument,
                fmt::format("\"{}\" is neither local nor an IPv4 address or name: {}", text,
                            gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, freeaddrinfo);
  char address[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(list->ai_addr)->sin_addr, address,
            sizeof address);
  peer.address = address;
  peer.rank = is_own_address(*list) ? 0 : 1;
  return peer;
}

Result<BurnInMeasurement> measure_burn_in(const BurnInCase& one, const BurnInPeer& peer,
                                          size_t number) {
  const BurnInFolder folder;
  if (!folder.exists()) return fail_errno(Code::kSystem, "no temporary folder", errno);
  const auto start = std::chrono::steady_clock::now();
  const int status =
      run_self(burn_in_arguments(one, peer, number, folder.file("json")), folder.file("output"));
  if (status == kExitOk && peer.rank != 0) return BurnInMeasurement{};
  if (status == kExitOk) return parse_burn_in(one, folder.read("json"));
  const std::string errors = errors_in(folder.read("output"), status);
  const std::chrono::seconds patience(kBurnInPatienceSeconds);
  if (!peer.is_local && std::chrono::steady_clock::now() - start >= patience) {
    return fail(Code::kInvalidUsage, "the other machine does not answer: " + errors);
  }
  if (status == kExitFailed) return fail(Code::kRemote, "the transfer failed: " + errors);
  return fail(Code::kSystem, errors);
}

}  // namespace gdr::tools::doctor
