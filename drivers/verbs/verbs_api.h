// The part of libibverbs that this tree calls, as one struct of functions. The library is bound at
// run time, since the plugin must load on hosts without RDMA; tests fill the struct with functions
// of their own. ibv_post_send, ibv_post_recv and ibv_poll_cq are not in it: they are inline
// functions of verbs.h that call through the context's own table (ibv_context::ops), without a
// symbol. Source: rdma-core's libibverbs/verbs.h for types and prototypes (its headers, not the
// library, are needed to build), and libibverbs/libibverbs.map.in for the symbol versions.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "drivers/verbs/mlx5_api.h"

namespace gdr::verbs {

// The member reg_mr is ibv_reg_mr and so on, with verbs.h's prototypes and results.
struct Api {
  // Present in rdma-core 32 and later. Never null once loaded.
  ibv_device** (*get_device_list)(int* count) = nullptr;
  void (*free_device_list)(ibv_device** list) = nullptr;
  const char* (*get_device_name)(ibv_device* device) = nullptr;
  ibv_context* (*open_device)(ibv_device* device) = nullptr;
  int (*close_device)(ibv_context* context) = nullptr;
  int (*query_device)(ibv_context* context, ibv_device_attr* attr) = nullptr;
  // EOPNOTSUPP where the provider is older than rdma-core 17.
  int (*query_port)(ibv_context* context, uint8_t port, ibv_port_attr* attr) = nullptr;
  ssize_t (*query_gid_table)(ibv_context* context, ibv_gid_entry* entries, size_t max_entries,
                             uint32_t flags, size_t entry_bytes) = nullptr;
  int (*get_async_event)(ibv_context* context, ibv_async_event* event) = nullptr;
  void (*ack_async_event)(ibv_async_event* event) = nullptr;
  const char* (*event_type_str)(ibv_event_type type) = nullptr;
  ibv_pd* (*alloc_pd)(ibv_context* context) = nullptr;
  int (*dealloc_pd)(ibv_pd* pd) = nullptr;
  ibv_mr* (*reg_mr)(ibv_pd* pd, void* addr, size_t bytes, int access) = nullptr;
  int (*dereg_mr)(ibv_mr* mr) = nullptr;
  ibv_cq* (*create_cq)(ibv_context* context, int entries, void* user, ibv_comp_channel* channel,
                       int vector) = nullptr;
  int (*destroy_cq)(ibv_cq* cq) = nullptr;
  ibv_qp* (*create_qp)(ibv_pd* pd, ibv_qp_init_attr* attr) = nullptr;
  int (*modify_qp)(ibv_qp* qp, ibv_qp_attr* attr, int mask) = nullptr;
  int (*destroy_qp)(ibv_qp* qp) = nullptr;
  int (*fork_init)() = nullptr;
  ibv_mr* (*reg_mr_iova2)(ibv_pd* pd, void* addr, size_t bytes, uint64_t iova,
                          unsigned access) = nullptr;
  int (*set_ece)(ibv_qp* qp, ibv_ece* ece) = nullptr;
  int (*query_ece)(ibv_qp* qp, ibv_ece* ece) = nullptr;

  // Null if the library is older than the symbol version named.
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t iova, int fd,
                           int access) = nullptr;  // IBVERBS_1.12
  // The effective speed, in units of 100 Mb/s: of all ports together where they are bonded.
  int (*query_port_speed)(ibv_context* context, uint32_t port,
                          uint64_t* speed) = nullptr;  // IBVERBS_1.16

  // Mlx5Api::load().
  const Mlx5Api* (*mlx5)() = nullptr;

  // Loads the verbs library at the first call in the process and returns the same Api from then on.
  // That is `preferred`, a name or a path (NCCL_IBVERBS_LIB), if it is given and can be opened,
  // else libibverbs.so.1: NCCL falls back, too (src/misc/ibvsymbols.cc). A preferred library that
  // cannot be opened is logged as a warning. kUnsupported if no library can be opened, with the
  // package to install, or if the one that was opened lacks a symbol. The library stays loaded.
  static Result<std::shared_ptr<const Api>> load(const std::string& preferred = "");

  // Loads the first of the libraries that can be opened, at each call; appends why each before it
  // cannot be opened to `failures`.
  static Result<std::shared_ptr<const Api>> load_first(const std::vector<std::string>& libraries,
                                                       std::vector<std::string>* failures);
};

}  // namespace gdr::verbs
