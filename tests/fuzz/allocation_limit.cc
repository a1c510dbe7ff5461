#include "tests/fuzz/allocation_limit.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace gdr::fuzz {
namespace {

std::atomic<bool> g_limited{false};
std::atomic<size_t> g_allocated{0};

void* allocate(size_t bytes) {
  if (g_limited.load(std::memory_order_relaxed)) {
    const size_t all = g_allocated.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (bytes > AllocationLimit::kOne || all > AllocationLimit::kAll) {
      g_limited = false;
      std::fprintf(stderr, "fuzz: an input makes the program allocate %zu bytes, %zu in all\n",
                   bytes, all);
      std::abort();
    }
  }
  return std::malloc(std::max<size_t>(bytes, 1));
}

void* allocate_or_throw(size_t bytes) {
  if (void* memory = allocate(bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

AllocationLimit::AllocationLimit() {
  g_allocated = 0;
  g_limited = true;
}
AllocationLimit::~AllocationLimit() { g_limited = false; }

}  // namespace gdr::fuzz

// All forms, since a sanitizer compares the form that allocates with the one that frees.
void* operator new(size_t bytes) { return gdr::fuzz::allocate_or_throw(bytes); }
void* operator new[](size_t bytes) { return gdr::fuzz::allocate_or_throw(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return gdr::fuzz::allocate(bytes);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return gdr::fuzz::allocate(bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
