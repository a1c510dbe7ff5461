#include "plugin/stats_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace gdr::plugin {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStatsPrefix = "nccl_gdr_";
constexpr std::string_view kStatsSuffix = ".prom";
constexpr int kMostProcesses = 1024;  // of one folder

tl::unexpected<Error> stats_failure(const char* call, const fs::path& path, int err) {
  tl::unexpected<Error> failure =
      fail_errno(Code::kSystem, std::string(call) + " " + path.string() + " failed", err);
  const std::string folder = path.parent_path().string();
  failure.value().text +=
      ". Fix: let GDR_NCCL_STATS_DIR name a folder on a local file system that exists on every "
      "node, has room, is mounted in containers, and that the job's user may write to (mkdir -p " +
      folder + "; chmod 1777 " + folder + ")";
  return failure;
}

// Opens a lock file without waiting, whatever lies there.
int open_existing(const fs::path& path) {
  return open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
}

// The number in "nccl_gdr_<number>.prom".
std::optional<int> stats_number_of(const std::string& name) {
  std::string_view digits = name;
  if (!digits.starts_with(kStatsPrefix) || !digits.ends_with(kStatsSuffix)) return {};
  digits.remove_prefix(kStatsPrefix.size());
  digits.remove_suffix(std::min(kStatsSuffix.size(), digits.size()));
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  return whole && number >= 0 ? std::optional(number) : std::nullopt;
}

// Returns an errno value.
int write_text(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

}  // namespace

fs::path StatsFile::file(int number) const {
  return folder_ / (std::string(kStatsPrefix) + std::to_string(number) + std::string(kStatsSuffix));
}

fs::path StatsFile::lock_file(int number) const {
  return folder_ / ("." + std::string(kStatsPrefix) + std::to_string(number) + ".lock");
}

fs::path StatsFile::temporary_file(int number) const {
  return folder_ / ("." + std::string(kStatsPrefix) + std::to_string(number) + ".tmp");
}

Status StatsFile::write(const std::function<std::string(int number)>& text_of) {
  if (Status status = claim(); !status) return status;
  return replace(text_of(number_));
}

Status StatsFile::claim() {
  if (lock_.valid()) return {};
  const fs::path inside = folder_ / ".";
  if (faccessat(AT_FDCWD, inside.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    return stats_failure("writing to", inside, errno);
  }
  for (int number = 0; number < kMostProcesses; ++number) {
    Result<bool> taken = try_number(number);
    if (!taken) return forward_error(taken);
    if (!*taken) continue;
    remove_files_of_ended();
    return {};
  }
  return fail(Code::kSystem, "all " + std::to_string(kMostProcesses) + " files of " +
                                 folder_.string() +
                                 " belong to other processes or users. Fix: remove those of jobs "
                                 "that have ended (rm " +
                                 (folder_ / "nccl_gdr_[0-9]*.prom").string() + ")");
}

// In a folder with the sticky bit, as /tmp, only its owner can replace a file.
bool StatsFile::is_of_another_user(const fs::path& path) const {
  struct stat file {};
  return geteuid() != 0 && lstat(path.c_str(), &file) == 0 && file.st_uid != geteuid();
}

// Opens first without O_CREAT: Linux refuses that for another user's file in a folder with the
// sticky bit (fs.protected_regular), where flock needs no more than to read. None: it cannot be
// opened, as of another user's file.
Result<UniqueFd> StatsFile::open_lock(int number) const {
  const fs::path path = lock_file(number);
  int fd = open_existing(path);
  if (fd < 0 && errno == ENOENT) {
    fd = open(path.c_str(), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 && errno != EEXIST) return stats_failure("creating", path, errno);
    if (fd >= 0) (void)fchmod(fd, 0644);  // other users' jobs lock it, whatever the umask is
    if (fd < 0) fd = open_existing(path);
  }
  // A child of fork would hold the lock as well. The file system may be slow, and forks of the
  // application should not wait for it, so that the file is open already.
  return fd < 0 ? UniqueFd() : UniqueFd::of_this_process([fd] { return fd; });
}

Result<bool> StatsFile::try_number(int number) {
  Result<UniqueFd> lock = open_lock(number);
  if (!lock) return forward_error(lock);
  if (!lock->valid()) return false;
  if (flock(lock->get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    return stats_failure("locking", lock_file(number), errno);
  }
  if (is_of_another_user(file(number))) return false;
  lock_ = std::move(*lock);
  number_ = number;
  return true;
}

void StatsFile::remove_files_of_ended() const {
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::optional<int> number = stats_number_of(entry->path().filename());
    if (!number || *number == number_) continue;
    const UniqueFd lock(open_existing(lock_file(*number)));
    if (!lock.valid() || flock(lock.get(), LOCK_EX | LOCK_NB) != 0) continue;
    (void)unlink(file(*number).c_str());
    (void)unlink(temporary_file(*number).c_str());
  }
}

// No fsync: after a crash of the node the counters begin anew anyway. The mode does not depend on
// the umask, as the collector runs as another user.
Status StatsFile::replace(const std::string& text) {
  const fs::path temporary = temporary_file(number_);
  (void)unlink(temporary.c_str());
  UniqueFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd.valid()) return stats_failure("creating", temporary, errno);
  (void)fchmod(fd.get(), 0644);
  int err = write_text(fd.get(), text);
  // NFS and quotas may report what could not be written only here.
  if (::close(fd.release()) != 0 && err == 0) err = errno;
  if (err == 0 && rename(temporary.c_str(), file(number_).c_str()) != 0) err = errno;
  if (err != 0) {
    (void)unlink(temporary.c_str());
    return stats_failure("writing", file(number_), err);
  }
  path_ = file(number_);
  return {};
}

}  // namespace gdr::plugin
