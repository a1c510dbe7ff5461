// Protection domains, parent domains, and their import by another context of this process.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace softhca {

class Domain;

// One object of a domain that is still open; while there is one, the domain cannot be deallocated.
class DomainUse {
 public:
  explicit DomainUse(std::shared_ptr<Domain> domain);
  DomainUse(DomainUse&& other) noexcept = default;
  DomainUse& operator=(DomainUse&& other) noexcept;
  ~DomainUse();

  const Domain& domain() const { return *domain_; }

 private:
  void end();

  std::shared_ptr<Domain> domain_;  // null when moved from
};

// What handles of the same protection domain share. A parent domain has the number of the domain
// that it was allocated from, and counts as one of its objects.
class Domain {
 public:
  Domain(uint32_t number, uint32_t device) : number_(number), device_(device) {}
  explicit Domain(const std::shared_ptr<Domain>& base)
      : number_(base->number_), device_(base->device_), base_(std::in_place, base) {}

  uint32_t number() const { return number_; }  // as SharedMr::pd and SharedQp::pd
  uint32_t device() const { return device_; }
  bool in_use() const { return uses_.load() != 0; }
  bool parent() const { return base_.has_value(); }

 private:
  friend class DomainUse;

  const uint32_t number_;
  const uint32_t device_;
  std::atomic<uint32_t> uses_{0};
  std::optional<DomainUse> base_;
};

// Behind ibv_alloc_pd, ibv_alloc_parent_domain and ibv_import_pd.
struct Pd {
  ibv_pd verbs;
  std::shared_ptr<Domain> domain;

  static Pd& of(ibv_pd* pd) { return *reinterpret_cast<Pd*>(pd); }
};

// As the verbs of these names: null with errno set, or an errno value, on failure.
ibv_pd* alloc_pd(ibv_context* context);
// Memory of queues lies in the arena: the allocators are not called, which
// ibv_alloc_parent_domain(3) leaves to the provider. A thread domain changes nothing.
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr);
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr);
int dealloc_td(ibv_td* td);
// EBUSY while MRs, QPs or parent domains of it are open.
int dealloc_pd(ibv_pd* pd);
ibv_pd* import_pd(ibv_context* context, uint32_t handle);
void unimport_pd(ibv_pd* pd);

}  // namespace softhca
