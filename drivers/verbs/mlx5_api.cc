#include "drivers/verbs/mlx5_api.h"

#include <dlfcn.h>

#include <optional>

namespace gdr::verbs {
namespace {

template <class Function>
bool resolve(void* library, const char* name, const char* version, Function*& slot) {
  slot = reinterpret_cast<Function*>(dlvsym(library, name, version));
  return slot != nullptr;
}

std::optional<Mlx5Api> load_once() {
  void* library = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  Mlx5Api api;
  const bool complete = resolve(library, "mlx5dv_is_supported", "MLX5_1.8", api.is_supported) &&
                        resolve(library, "mlx5dv_get_data_direct_sysfs_path", "MLX5_1.25",
                                api.get_data_direct_sysfs_path) &&
                        resolve(library, "mlx5dv_reg_dmabuf_mr", "MLX5_1.25", api.reg_dmabuf_mr);
  return complete ? std::optional<Mlx5Api>(api) : std::nullopt;
}

}  // namespace

const Mlx5Api* Mlx5Api::load() {
  static const std::optional<Mlx5Api> api = load_once();
  return api ? &*api : nullptr;
}

}  // namespace gdr::verbs
