// The descriptor behind ibv_context::cmd_fd, by which another context of this process can share the
// objects of the first one (ibv_import_device(3)).
#pragma once

#include "softhca/verbs/device.h"

namespace softhca {

class Runtime;

// Returns a descriptor that names the device of this process; -1 with errno set on failure. It is
// closed in programs that are executed.
int open_command_fd(const Device& device);
// Returns the device that the descriptor names. Null with errno EINVAL when it is not one of
// open_command_fd(), and EOPNOTSUPP when it is one of another process, whose objects cannot be used
// here.
Device* device_of_command_fd(Runtime& runtime, int fd);

}  // namespace softhca
