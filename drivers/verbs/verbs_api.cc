#include "drivers/verbs/verbs_api.h"

#include <dlfcn.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"

namespace gdr::verbs {
namespace {

// An open library, which is never closed.
struct Library {
  void* handle;
  std::string name;
};

template <class Function>
Status resolve(const Library& library, const char* name, const char* version, Function*& slot) {
  slot = reinterpret_cast<Function*>(dlvsym(library.handle, name, version));
  if (slot != nullptr) return {};
  return fail(Code::kUnsupported, library.name + " has no " + name + "@" + version +
                                      ". Fix: install libibverbs of rdma-core 32 or newer, and let "
                                      "NCCL_IBVERBS_LIB be unset or name that");
}

// Through the context's extended table, which fills all of attr: the exported symbol fills only the
// structure of 2010. The library is passed the size of the caller's structure. Source: rdma-core's
// libibverbs/verbs.h (___ibv_query_port) and verbs.c (__lib_query_port).
int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attr) {
  *attr = {};
  verbs_context* extended = verbs_get_ctx_op(context, query_port);
  if (extended == nullptr) return EOPNOTSUPP;
  return extended->query_port(context, port, attr, sizeof(*attr));
}

Status resolve_required(const Library& lib, Api& api) {
  constexpr char kV1[] = "IBVERBS_1.1";
  const Status results[] = {
      resolve(lib, "ibv_get_device_list", kV1, api.get_device_list),
      resolve(lib, "ibv_free_device_list", kV1, api.free_device_list),
      resolve(lib, "ibv_get_device_name", kV1, api.get_device_name),
      resolve(lib, "ibv_open_device", kV1, api.open_device),
      resolve(lib, "ibv_close_device", kV1, api.close_device),
      resolve(lib, "ibv_query_device", kV1, api.query_device),
      resolve(lib, "_ibv_query_gid_table", "IBVERBS_1.11", api.query_gid_table),
      resolve(lib, "ibv_get_async_event", kV1, api.get_async_event),
      resolve(lib, "ibv_ack_async_event", kV1, api.ack_async_event),
      resolve(lib, "ibv_event_type_str", kV1, api.event_type_str),
      resolve(lib, "ibv_alloc_pd", kV1, api.alloc_pd),
      resolve(lib, "ibv_dealloc_pd", kV1, api.dealloc_pd),
      resolve(lib, "ibv_reg_mr", kV1, api.reg_mr),
      resolve(lib, "ibv_dereg_mr", kV1, api.dereg_mr),
      resolve(lib, "ibv_create_cq", kV1, api.create_cq),
      resolve(lib, "ibv_destroy_cq", kV1, api.destroy_cq),
      resolve(lib, "ibv_create_qp", kV1, api.create_qp),
      resolve(lib, "ibv_modify_qp", kV1, api.modify_qp),
      resolve(lib, "ibv_destroy_qp", kV1, api.destroy_qp),
      resolve(lib, "ibv_fork_init", kV1, api.fork_init),
      resolve(lib, "ibv_reg_mr_iova2", "IBVERBS_1.8", api.reg_mr_iova2),
      resolve(lib, "ibv_set_ece", "IBVERBS_1.10", api.set_ece),
      resolve(lib, "ibv_query_ece", "IBVERBS_1.10", api.query_ece),
  };
  for (const Status& result : results) {
    if (!result) return result;
  }
  api.query_port = query_port;
  return {};
}

void resolve_optional(const Library& lib, Api& api) {
  // A failure leaves the slot null, which is how callers see that the library is too old.
  (void)resolve(lib, "ibv_reg_dmabuf_mr", "IBVERBS_1.12", api.reg_dmabuf_mr);
  (void)resolve(lib, "ibv_query_port_speed", "IBVERBS_1.16", api.query_port_speed);
}

Result<std::shared_ptr<const Api>> bind(const Library& lib) {
  auto api = std::make_shared<Api>();
  if (Status status = resolve_required(lib, *api); !status) return forward_error(status);
  resolve_optional(lib, *api);
  api->mlx5 = Mlx5Api::load;
  // Copy-on-write after fork would take registered pages away from the HCA on kernels before 5.12.
  (void)api->fork_init();
  return std::shared_ptr<const Api>(std::move(api));
}

Result<std::shared_ptr<const Api>> load_once(const std::string& preferred) {
  std::vector<std::string> libraries = {"libibverbs.so.1", "libibverbs.so"};
  if (!preferred.empty()) libraries.insert(libraries.begin(), preferred);
  std::vector<std::string> failures;
  Result<std::shared_ptr<const Api>> api = Api::load_first(libraries, &failures);
  if (api && !preferred.empty() && !failures.empty()) {
    GDR_WARN(
        "NCCL_IBVERBS_LIB: %s; the system's verbs library is used instead. Fix: unset it, or "
        "let it name a libibverbs.so.1",
        failures.front().c_str());
  }
  return api;
}

}  // namespace

Result<std::shared_ptr<const Api>> Api::load_first(const std::vector<std::string>& libraries,
                                                   std::vector<std::string>* failures) {
  for (const std::string& name : libraries) {
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return bind({handle, name});
    const char* why = dlerror();
    failures->push_back(name + " cannot be loaded (" + (why == nullptr ? "no reason" : why) + ")");
  }
  std::string text;
  for (const std::string& failure : *failures) text += (text.empty() ? "" : "; ") + failure;
  return fail(Code::kUnsupported, text + ". Fix: install rdma-core (Debian, Ubuntu: libibverbs1)");
}

Result<std::shared_ptr<const Api>> Api::load(const std::string& preferred) {
  static const Result<std::shared_ptr<const Api>> loaded = load_once(preferred);
  return loaded;
}

}  // namespace gdr::verbs
