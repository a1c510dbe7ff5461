#include "softhca/verbs/command_fd.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "softhca/fabric/process.h"
#include "softhca/verbs/runtime.h"

namespace softhca {

namespace {

// What the descriptor's file contains.
struct Command {
  uint64_t magic;
  uint64_t instance;  // of the process
  uint64_t device;
};

constexpr uint64_t kMagic = 0x646d636863746673;  // "sftchcmd"

}  // namespace

int open_command_fd(const Device& device) {
  int fd = memfd_create("softhca-command", MFD_CLOEXEC);
  if (fd < 0) return -1;
  Command command = {kMagic, device.process->self().instance(), device.index};
  if (pwrite(fd, &command, sizeof command, 0) == sizeof command) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

Device* device_of_command_fd(Runtime& runtime, int fd) {
  Command command = {};
  if (pread(fd, &command, sizeof command, 0) != sizeof command || command.magic != kMagic) {
    errno = EINVAL;
    return nullptr;
  }
  if (command.instance != runtime.process().self().instance()) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return runtime.devices()[command.device];
}

}  // namespace softhca
