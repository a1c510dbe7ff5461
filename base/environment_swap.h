// Changes to the process environment that are safe while other threads read it.
//
// Why it exists: hwloc is configured by HWLOC_* variables, in NCCL's init, in a training process
// with many threads that may call getenv(). setenv() may free the array that such a thread is
// reading. Here, `environ` is pointed at a new array instead, and old arrays and strings are never
// freed.
#pragma once

#include <string>

namespace gdr {

// Sets a variable for the life of this object, which should be short. Changes by other threads
// during that time: if a setenv() replaces `environ`, the variable stays set; if one only changes
// or unsets a variable in place, that change is lost at the end.
class ScopedVariable {
 public:
  ScopedVariable(const std::string& name, const std::string& value);
  ~ScopedVariable();
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  char** before_;
  char** ours_;
};

}  // namespace gdr
