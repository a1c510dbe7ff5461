// Variables for the process's own environment, without harm to threads that read it meanwhile:
// setenv() may free the array that they are reading. Here the process gets a new array, and old
// ones stay as they are for good.
#pragma once

#include <string>

namespace gdr {

// For the rest of the process's life.
void set_environment(const std::string& name, const std::string& value);

// For the life of this object, which should be short; longer if another thread's setenv() makes an
// array of its own meanwhile. A variable that another thread only changes or unsets in that time is
// as before afterwards.
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
