// The exported functions of libibverbs for devices, contexts and queries. Their contracts are those
// of the manual pages of rdma-core (libibverbs/man).
#include <endian.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>

#include "softhca/verbs/command_fd.h"
#include "softhca/verbs/context.h"
#include "softhca/verbs/cq.h"
#include "softhca/verbs/device.h"
#include "softhca/verbs/pd.h"
#include "softhca/verbs/qp.h"
#include "softhca/verbs/runtime.h"

#undef ibv_query_port

namespace softhca {

namespace {

constexpr int kCompletionVectors = 16;

int query_port_op(ibv_context* handle, uint8_t number, ibv_port_attr* attr, size_t bytes) {
  Context::of(handle).runtime->faults().await_port_query(Context::of(handle).device->index);
  return query_port(*Context::of(handle).device, number, attr, bytes);
}

int query_device_ex_op(ibv_context* handle, const ibv_query_device_ex_input*,
                       ibv_device_attr_ex* attr, size_t bytes) {
  if (int error = Context::of(handle).device->error(); error != 0) return error;
  ibv_device_attr_ex full = {};
  query_device(*Context::of(handle).device, &full.orig_attr);
  full.device_cap_flags_ex = full.orig_attr.device_cap_flags;
  full.phys_port_cnt_ex = full.orig_attr.phys_port_cnt;
  // A caller that was built against a newer rdma-core has fields that are unknown here: they read
  // zero.
  memset(attr, 0, bytes);
  memcpy(attr, &full, std::min(bytes, sizeof full));
  return 0;
}

ibv_cq_ex* create_cq_ex_op(ibv_context* handle, ibv_cq_init_attr_ex* attr) {
  if ((attr->wc_flags & ~uint64_t{IBV_WC_STANDARD_FLAGS}) != 0 ||
      (attr->comp_mask & ~uint32_t{IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD}) != 0) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 &&
      (attr->flags & ~uint32_t{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}) != 0) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return reinterpret_cast<ibv_cq_ex*>(create_cq(handle, *attr));
}

ibv_qp* create_qp_ex_op(ibv_context* handle, ibv_qp_init_attr_ex* attr) {
  return create_qp(handle, attr);
}

// Null with errno set on failure; the descriptor then stays the caller's.
Context* open_context(Device& device, int command_fd) {
  auto* context = new (std::nothrow) Context{};
  errno = ENOMEM;
  if (context == nullptr) return nullptr;
  context->runtime = device.runtime;
  context->device = &device;
  context->async_events = std::make_unique<EventQueue>(*device.process);
  if (!context->async_events->valid()) {
    delete context;
    return nullptr;
  }
  verbs_context& verbs = context->verbs;
  verbs.sz = sizeof verbs;
  verbs.query_port = query_port_op;
  verbs.query_device_ex = query_device_ex_op;
  verbs.create_cq_ex = create_cq_ex_op;
  verbs.create_qp_ex = create_qp_ex_op;
  verbs.alloc_parent_domain = alloc_parent_domain;
  verbs.alloc_td = alloc_td;
  verbs.dealloc_td = dealloc_td;
  ibv_context& base = verbs.context;
  base.device = &device.verbs;
  base.ops.poll_cq = poll_cq;
  base.ops.req_notify_cq = req_notify_cq;
  base.ops.post_send = post_send;
  base.ops.post_recv = post_recv;
  base.cmd_fd = command_fd;
  base.async_fd = context->async_events->fd();
  base.num_comp_vectors = kCompletionVectors;
  pthread_mutex_init(&base.mutex, nullptr);
  base.abi_compat = __VERBS_ABI_IS_EXTENDED;
  return context;
}

}  // namespace

}  // namespace softhca

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  softhca::Runtime* runtime = softhca::Runtime::get();
  size_t most = runtime == nullptr ? 0 : runtime->devices().size();
  auto** list = static_cast<ibv_device**>(calloc(most + 1, sizeof(ibv_device*)));
  if (list == nullptr) return nullptr;
  size_t found = 0;
  for (size_t i = 0; i < most; ++i) {
    softhca::Device& device = *runtime->devices()[i];
    if (!device.removed()) list[found++] = &device.verbs;
  }
  if (count != nullptr) *count = static_cast<int>(found);
  return list;
}

void ibv_free_device_list(ibv_device** list) { free(list); }

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

int ibv_get_device_index(ibv_device* device) {
  return static_cast<int>(softhca::Device::of(device).index);
}

__be64 ibv_get_device_guid(ibv_device* device) {
  return htobe64(softhca::Device::of(device).config->guid);
}

ibv_context* ibv_open_device(ibv_device* handle) {
  softhca::Device& device = softhca::Device::of(handle);
  if (device.runtime->orphaned()) {
    errno = EIO;  // a device of the parent process: the child has to list its own
    return nullptr;
  }
  if (device.error() != 0) {
    errno = device.removed() ? ENODEV : EIO;
    return nullptr;
  }
  int fd = softhca::open_command_fd(device);
  softhca::Context* context = fd < 0 ? nullptr : softhca::open_context(device, fd);
  if (context == nullptr) {
    if (fd >= 0) close(fd);
    errno = ENOMEM;
    return nullptr;
  }
  device.runtime->add_context(context);
  return context->handle();
}

ibv_context* ibv_import_device(int fd) {
  softhca::Runtime* runtime = softhca::Runtime::get();
  if (runtime == nullptr) {
    errno = ENODEV;
    return nullptr;
  }
  softhca::Device* device = softhca::device_of_command_fd(*runtime, fd);
  if (device == nullptr) return nullptr;
  softhca::Context* context = softhca::open_context(*device, fd);
  if (context == nullptr) return nullptr;
  runtime->add_context(context);
  return context->handle();
}

int ibv_close_device(ibv_context* handle) {
  softhca::Context& context = softhca::Context::of(handle);
  if (context.runtime->orphaned()) return 0;
  context.runtime->remove_context(&context);
  close(handle->cmd_fd);
  // Objects that the application left open still refer to the context: it is not freed then.
  if (context.objects.load() != 0) return 0;
  pthread_mutex_destroy(&handle->mutex);
  delete &context;
  return 0;
}

int ibv_query_device(ibv_context* handle, ibv_device_attr* attr) {
  if (int error = softhca::Context::of(handle).device->error(); error != 0) return error;
  softhca::query_device(*softhca::Context::of(handle).device, attr);
  return 0;
}

// Programs that call the exported function were built with the structure before port_cap_flags2;
// newer ones call verbs_context::query_port (verbs.h, ibv_query_port).
int ibv_query_port(ibv_context* handle, uint8_t port, _compat_ibv_port_attr* attr) {
  return softhca::query_port(*softhca::Context::of(handle).device, port,
                             reinterpret_cast<ibv_port_attr*>(attr),
                             offsetof(ibv_port_attr, port_cap_flags2));
}

// Since rdma-core 62, in 100 Mb/s; most providers do not have it.
int ibv_query_port_speed(ibv_context* handle, uint32_t port, uint64_t* speed) {
  const softhca::DeviceConfig& config = *softhca::Context::of(handle).device->config;
  if (port == 0 || port > config.ports) return EINVAL;
  std::optional<double> gbps = config.port(port).port_speed_gbps;
  if (!gbps) return EOPNOTSUPP;
  *speed = static_cast<uint64_t>(*gbps * 10);
  return 0;
}

int ibv_query_pkey(ibv_context* handle, uint8_t port, int index, __be16* pkey) {
  if (softhca::Context::of(handle).device->error() != 0) {
    errno = EIO;
    return -1;
  }
  if (port == 0 || port > softhca::Context::of(handle).device->config->ports || index != 0) {
    errno = EINVAL;
    return -1;
  }
  *pkey = 0xffff;
  return 0;
}

int ibv_get_pkey_index(ibv_context*, uint8_t, __be16 pkey) {
  if ((be16toh(pkey) & 0x7fff) == 0x7fff) return 0;
  errno = EINVAL;
  return -1;
}

}  // extern "C"
