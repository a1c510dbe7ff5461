#include "softhca/fabric/registry.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

namespace softhca {

struct Registry::Table {
  uint64_t magic;
  uint32_t version;
  uint32_t next;  // where the search for a free slot starts, so that a slot is reused late
  RegistrySlot slots[kMaxSlots];
};

namespace {

struct ProcessStat {
  char state = 'X';
  uint64_t start_time = 0;
};

// Returns nothing where the file cannot be read, as without a free descriptor.
std::optional<ProcessStat> read_stat(uint32_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return {};
  size_t end = line.rfind(')');  // field 2, the program's name, may contain spaces and brackets
  if (end == std::string::npos) return {};
  std::istringstream fields(line.substr(end + 1));
  ProcessStat stat;
  fields >> stat.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  fields >> stat.start_time;
  return stat;
}

// Returns 0 where it is unknown.
uint64_t pid_namespace() {
  struct stat info = {};
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

// Opens the registry file and locks it. Starts again when the last process on the fabric removed
// the file in between.
gdr::Result<int> open_locked(const std::string& folder) {
  std::string path = folder + "/registry";
  for (int attempt = 0; attempt < 1000; ++attempt) {
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
      return gdr::fail_errno(gdr::Code::kSystem, "mkdir " + folder, errno);
    }
    int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 && errno == ENOENT) continue;
    if (fd < 0) return gdr::fail_errno(gdr::Code::kSystem, "open " + path, errno);
    struct stat info = {};
    if (flock(fd, LOCK_EX) == 0 && fstat(fd, &info) == 0 && info.st_nlink > 0) return fd;
    close(fd);
  }
  return gdr::fail(gdr::Code::kSystem, "cannot lock " + path);
}

}  // namespace

bool process_ended(uint32_t pid, uint64_t start_time) {
  if (kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) return true;
  const std::optional<ProcessStat> stat = read_stat(pid);
  if (!stat) return false;
  const bool reused = start_time != 0 && stat->start_time != start_time;
  return stat->state == 'Z' || stat->state == 'X' || reused;
}

gdr::Result<Registry> Registry::join(const std::string& fabric, uint64_t instance) {
  Registry registry;
  registry.folder_ = "/dev/shm/softhca-" + std::to_string(getuid()) + "-" + fabric;
  gdr::Result<int> fd = open_locked(registry.folder_);
  if (!fd) return gdr::forward_error(fd);
  registry.fd_ = *fd;
  // A file without memory behind it would raise SIGBUS where /dev/shm is full.
  if (const int error = posix_fallocate(*fd, 0, sizeof(Table)); error != 0) {
    return gdr::fail_errno(gdr::Code::kSystem, "reserve in " + registry.folder_, error);
  }
  void* map = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
  if (map == MAP_FAILED) {
    return gdr::fail_errno(gdr::Code::kSystem, "mmap in " + registry.folder_, errno);
  }
  Table* table = registry.table_ = static_cast<Table*>(map);
  if (table->magic == 0) {
    table->magic = kArenaMagic;
    table->version = kLayoutVersion;
  }
  if (table->magic != kArenaMagic || table->version != kLayoutVersion) {
    return gdr::fail(gdr::Code::kInvalidUsage,
                     registry.folder_ +
                         " is of another version; remove it or choose another "
                         "\"fabric\" in the configuration");
  }
  registry.clear_dead();
  for (uint32_t tried = 0; tried < kMaxSlots - 1 && registry.slot_ == 0; ++tried) {
    uint32_t slot = 1 + (table->next + tried) % (kMaxSlots - 1);
    if (table->slots[slot].pid.load() == 0) registry.slot_ = slot;
  }
  if (registry.slot_ == 0) {
    return gdr::fail(gdr::Code::kSystem, "more than 1023 processes on " + registry.folder_);
  }
  RegistrySlot& mine = table->slots[registry.slot_];
  table->next = registry.slot_;
  mine.start_time = read_stat(static_cast<uint32_t>(getpid())).value_or(ProcessStat()).start_time;
  mine.pid_namespace = pid_namespace();
  mine.instance = instance;
  mine.pid.store(static_cast<uint32_t>(getpid()));
  std::error_code ignored;
  std::filesystem::remove_all(registry.slot_folder(registry.slot_), ignored);
  mkdir(registry.slot_folder(registry.slot_).c_str(), 0700);
  flock(*fd, LOCK_UN);
  return registry;
}

Registry::Registry(Registry&& other) noexcept
    : folder_(std::move(other.folder_)),
      fd_(std::exchange(other.fd_, -1)),
      table_(std::exchange(other.table_, nullptr)),
      slot_(std::exchange(other.slot_, 0)) {}

Registry::~Registry() {
  if (table_ != nullptr) munmap(table_, sizeof(Table));
  if (fd_ >= 0) close(fd_);
}

std::string Registry::slot_folder(uint32_t slot) const {
  return folder_ + "/" + std::to_string(slot);
}

uint64_t Registry::instance(uint32_t slot) const {
  if (slot == 0 || slot >= kMaxSlots || table_->slots[slot].pid.load() == 0) return 0;
  return table_->slots[slot].instance;
}

void Registry::clear_dead() {
  uint64_t own_namespace = pid_namespace();
  for (uint32_t slot = 1; slot < kMaxSlots; ++slot) {
    RegistrySlot& entry = table_->slots[slot];
    uint32_t pid = entry.pid.load();
    // A process of another pid namespace, or of an unknown one, is not visible here: it may be
    // alive. The number of a namespace is used again only when its processes have ended.
    if (pid == 0 || slot == slot_ || entry.pid_namespace != own_namespace) continue;
    if (own_namespace == 0 || !process_ended(pid, entry.start_time)) continue;
    std::error_code ignored;
    std::filesystem::remove_all(slot_folder(slot), ignored);
    entry.pid.store(0);
  }
}

void Registry::leave() {
  if (slot_ == 0) return;
  flock(fd_, LOCK_EX);
  clear_dead();
  std::error_code ignored;
  std::filesystem::remove_all(slot_folder(slot_), ignored);
  table_->slots[slot_].pid.store(0);
  slot_ = 0;
  bool empty = true;
  for (const RegistrySlot& slot : table_->slots) empty = empty && slot.pid.load() == 0;
  if (empty) std::filesystem::remove_all(folder_, ignored);
  flock(fd_, LOCK_UN);
}

}  // namespace softhca
