// A limit of the memory that an input may make the program allocate.
#pragma once

#include <cstddef>

namespace gdr::fuzz {

// Where more is allocated by operator new while one exists, in any thread, the process ends at that
// place. At most one at a time.
class AllocationLimit {
 public:
  static constexpr size_t kOne = size_t{1} << 20;   // bytes of one allocation
  static constexpr size_t kAll = size_t{64} << 20;  // bytes of all, those that are freed included

  AllocationLimit();
  ~AllocationLimit();
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;
};

}  // namespace gdr::fuzz
