// Memory that messages are sent from and received into.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "base/result.h"

namespace gdr::tools {

class Buffer {
 public:
  // Page-aligned host memory, touched, so that no page fault falls into a measurement.
  static Result<Buffer> host(size_t bytes);

  char* data() const { return memory_.get(); }
  size_t bytes() const { return bytes_; }
  int nccl_type() const { return type_; }  // what regMr wants

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  Buffer() = default;
  std::unique_ptr<char, Free> memory_;
  size_t bytes_ = 0;
  int type_ = 0;
};

}  // namespace gdr::tools
