// Random numbers that a peer cannot guess.
#pragma once

#include <cstdint>

namespace gdr {

// Returns 64 bits of the kernel's random numbers. Throws std::system_error where it gives none.
// std::random_device would do, but needs a C library as new as the one that built this
// (arc4random).
uint64_t random_bits();

}  // namespace gdr
