// Random use of the cache; after every step it is compared with a model, a plain list.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/unit/transport/device/fake_registrations.h"
#include "transport/device/registration_cache.h"

namespace gdr::transport {
namespace {

struct Model {
  struct Live {
    ibv_mr* mr;
    size_t kind;
    int references;
  };
  std::vector<Live> live;
  std::vector<ibv_mr*> held;  // one for each acquire without its release

  Live* covering(const MemoryRegion& range, size_t kind) {
    auto it = std::find_if(live.begin(), live.end(), [&](const Live& one) {
      return one.kind == kind && covers(*one.mr, range.address, range.bytes);
    });
    return it == live.end() ? nullptr : &*it;
  }
  Live& of(const ibv_mr* mr) {
    return *std::find_if(live.begin(), live.end(), [&](const Live& one) { return one.mr == mr; });
  }
};

class RegistrationCacheModelTest : public testing::TestWithParam<unsigned> {
 protected:
  size_t below(size_t bound) { return random_() % bound; }

  MemoryRegion random_range(bool dmabuf) {
    size_t pages = 1 + below(below(4) == 0 ? 64 : 6);
    MemoryRegion range{0x100000 + below(64) * kPage, pages * kPage, false, dmabuf ? 3 : -1};
    if (dmabuf) return range;
    size_t cut = below(kPage);  // within the first and the last page
    return MemoryRegion{range.address + cut, range.bytes - cut - below(kPage - cut)};
  }

  void acquire() {
    size_t kind = below(4);
    PciOrdering ordering = kind % 2 == 1 ? PciOrdering::kRelaxed : PciOrdering::kStrict;
    MemoryRegion range = random_range(kind >= 2);
    bool failing = below(50) == 0;
    fake_.fail_with_errno = failing ? ENOMEM : 0;
    bool expect_hit = model_.covering(range, kind) != nullptr;
    int made = fake_.made;
    Result<ibv_mr*> mr = cache_.acquire(range, ordering);
    ASSERT_EQ(mr.has_value(), expect_hit || !failing);
    ASSERT_EQ(mr ? 0 : mr.error().sys_errno, mr ? 0 : ENOMEM);
    ASSERT_EQ(fake_.made - made, expect_hit || failing ? 0 : 1);
    if (!mr) return;
    ASSERT_TRUE(covers(**mr, range.address, range.bytes));
    if (!expect_hit) model_.live.push_back({*mr, kind, 0});
    ASSERT_EQ(model_.of(*mr).kind, kind);
    ++model_.of(*mr).references;
    model_.held.push_back(*mr);
  }

  void release() {
    std::swap(model_.held[below(model_.held.size())], model_.held.back());
    ibv_mr* mr = model_.held.back();
    model_.held.pop_back();
    cache_.release(mr);
    if (--model_.of(mr).references == 0) model_.live.erase(model_.live.begin() + index_of(mr));
  }

  ptrdiff_t index_of(const ibv_mr* mr) { return &model_.of(mr) - model_.live.data(); }

  void check() {
    ASSERT_EQ(cache_.size(), model_.live.size());
    ASSERT_EQ(static_cast<size_t>(fake_.live), model_.live.size());
  }

  std::mt19937 random_{GetParam()};
  FakeRegistrations fake_;
  verbs::Api api_ = FakeRegistrations::api();
  RegistrationCache cache_{api_, &fake_, "hca0"};
  Model model_;
};

TEST_P(RegistrationCacheModelTest, RandomUse_IsAsModelled) {
  for (int step = 0; step < 10000; ++step) {
    bool growing = step / 500 % 2 == 0;
    if (model_.held.empty() || below(10) < (growing ? 7u : 3u)) {
      ASSERT_NO_FATAL_FAILURE(acquire()) << "step " << step;
    } else {
      release();
    }
    ASSERT_NO_FATAL_FAILURE(check()) << "step " << step;
  }
  while (!model_.held.empty()) release();
  EXPECT_NO_FATAL_FAILURE(check());
  EXPECT_EQ(fake_.live, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RegistrationCacheModelTest, testing::Range(1u, 6u));

}  // namespace
}  // namespace gdr::transport
