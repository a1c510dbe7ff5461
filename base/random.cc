#include "base/random.h"

#include <sys/random.h>

#include <cerrno>
#include <system_error>

namespace gdr {

uint64_t random_bits() {
  uint64_t bits;
  // So few bytes come whole (getrandom(2)).
  while (getrandom(&bits, sizeof(bits), 0) != static_cast<ssize_t>(sizeof(bits))) {
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  return bits;
}

}  // namespace gdr
