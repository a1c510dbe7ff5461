#include "softhca/verbs/pd.h"

#include <cerrno>

#include "softhca/verbs/context.h"
#include "softhca/verbs/runtime.h"

namespace softhca {

namespace {

ibv_pd* make_handle(Context& context, std::shared_ptr<Domain> domain) {
  auto* pd = new Pd{};
  pd->verbs.context = context.handle();
  pd->verbs.handle = domain->number();
  pd->domain = std::move(domain);
  context.objects.fetch_add(1);
  return &pd->verbs;
}

void drop_handle(Pd& pd) {
  Context::of(pd.verbs.context).objects.fetch_sub(1);
  delete &pd;
}

// Behind ibv_alloc_td.
struct Td {
  ibv_td verbs;
};

}  // namespace

DomainUse::DomainUse(std::shared_ptr<Domain> domain) : domain_(std::move(domain)) {
  domain_->uses_.fetch_add(1);
}

DomainUse& DomainUse::operator=(DomainUse&& other) noexcept {
  end();
  domain_ = std::move(other.domain_);
  return *this;
}

DomainUse::~DomainUse() { end(); }

void DomainUse::end() {
  if (domain_ != nullptr) domain_->uses_.fetch_sub(1);
}

ibv_pd* alloc_pd(ibv_context* handle) {
  Context& context = Context::of(handle);
  errno = context.device->error();
  if (errno != 0) return nullptr;
  return make_handle(context, context.runtime->domains().add([&](uint32_t number) {
    return std::make_shared<Domain>(number, context.device->index);
  }));
}

ibv_pd* alloc_parent_domain(ibv_context* handle, ibv_parent_domain_init_attr* attr) {
  constexpr uint32_t kKnown =
      IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  errno = attr->pd == nullptr ? EINVAL : (attr->comp_mask & ~kKnown) != 0 ? EOPNOTSUPP : 0;
  if (errno != 0) return nullptr;
  const std::shared_ptr<Domain>& base = Pd::of(attr->pd).domain;
  if (base->parent()) {
    errno = EINVAL;
    return nullptr;
  }
  return make_handle(Context::of(handle), std::make_shared<Domain>(base));
}

ibv_td* alloc_td(ibv_context* handle, ibv_td_init_attr* attr) {
  if (attr->comp_mask != 0) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  auto* td = new Td{};
  td->verbs.context = handle;
  Context::of(handle).objects.fetch_add(1);
  return &td->verbs;
}

int dealloc_td(ibv_td* handle) {
  Context::of(handle->context).objects.fetch_sub(1);
  delete reinterpret_cast<Td*>(handle);
  return 0;
}

int dealloc_pd(ibv_pd* handle) {
  Pd& pd = Pd::of(handle);
  if (Context::of(handle->context).device->removed()) return EIO;
  if (pd.domain->in_use()) return EBUSY;
  if (!pd.domain->parent()) {
    Context::of(handle->context).runtime->domains().remove(pd.domain->number());
  }
  drop_handle(pd);
  return 0;
}

ibv_pd* import_pd(ibv_context* handle, uint32_t number) {
  Context& context = Context::of(handle);
  std::shared_ptr<Domain> domain = context.runtime->domains().find(number);
  if (domain == nullptr || domain->device() != context.device->index) {
    errno = EINVAL;
    return nullptr;
  }
  return make_handle(context, std::move(domain));
}

void unimport_pd(ibv_pd* handle) { drop_handle(Pd::of(handle)); }

}  // namespace softhca
