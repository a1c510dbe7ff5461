#include "base/environment_swap.h"

#include <unistd.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

namespace gdr {
namespace {

// Stores the array for the rest of the process's life, reachable, so that leak checkers do not
// report it.
char** retain_forever(std::vector<char*> items) {
  static std::mutex mutex;
  static auto* arrays = new std::vector<std::unique_ptr<std::vector<char*>>>();
  auto owned = std::make_unique<std::vector<char*>>(std::move(items));
  char** array = owned->data();
  std::lock_guard lock(mutex);
  arrays->push_back(std::move(owned));
  return array;
}

char** with_variable(char** before, const std::string& name, const std::string& value) {
  std::string start = name + "=";
  std::vector<char*> items;
  for (char** item = before; item != nullptr && *item != nullptr; ++item) {
    if (std::strncmp(*item, start.c_str(), start.size()) != 0) items.push_back(*item);
  }
  items.push_back(strdup((start + value).c_str()));
  items.push_back(nullptr);
  return retain_forever(std::move(items));
}

}  // namespace

ScopedVariable::ScopedVariable(const std::string& name, const std::string& value)
    : before_(environ), ours_(with_variable(before_, name, value)) {
  __atomic_store_n(&environ, ours_, __ATOMIC_RELEASE);
}

ScopedVariable::~ScopedVariable() {
  char** expected = ours_;
  __atomic_compare_exchange_n(&environ, &expected, before_, false, __ATOMIC_ACQ_REL,
                              __ATOMIC_RELAXED);
}

}  // namespace gdr
