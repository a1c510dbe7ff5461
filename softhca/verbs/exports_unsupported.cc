// Functions that programs and drivers of rdma-core link against, but that have no meaning here:
// they fail with EOPNOTSUPP. Drivers never reach those for kernel commands, because no device has a
// kernel driver.
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>

struct ibv_kern_ah_attr;
struct ibv_kern_path_rec;
struct ibv_kern_qp_attr;
struct ibv_sa_path_rec;

namespace {

template <class T>
T* unsupported() {
  errno = EOPNOTSUPP;
  return nullptr;
}

}  // namespace

extern "C" {

// Verbs.

ibv_dm* ibv_import_dm(ibv_context*, uint32_t) { return unsupported<ibv_dm>(); }
void ibv_unimport_dm(ibv_dm*) {}
ibv_ah* ibv_create_ah(ibv_pd*, ibv_ah_attr*) { return unsupported<ibv_ah>(); }
int ibv_init_ah_from_wc(ibv_context*, uint8_t, ibv_wc*, ibv_grh*, ibv_ah_attr*) {
  errno = EOPNOTSUPP;
  return -1;
}
ibv_ah* ibv_create_ah_from_wc(ibv_pd*, ibv_wc*, ibv_grh*, uint8_t) { return unsupported<ibv_ah>(); }
int ibv_destroy_ah(ibv_ah*) { return EOPNOTSUPP; }
ibv_srq* ibv_create_srq(ibv_pd*, ibv_srq_init_attr*) { return unsupported<ibv_srq>(); }
int ibv_modify_srq(ibv_srq*, ibv_srq_attr*, int) { return EOPNOTSUPP; }
int ibv_query_srq(ibv_srq*, ibv_srq_attr*) { return EOPNOTSUPP; }
int ibv_destroy_srq(ibv_srq*) { return EOPNOTSUPP; }
int ibv_attach_mcast(ibv_qp*, const ibv_gid*, uint16_t) { return EOPNOTSUPP; }
int ibv_detach_mcast(ibv_qp*, const ibv_gid*, uint16_t) { return EOPNOTSUPP; }
int ibv_resolve_eth_l2_from_gid(ibv_context*, ibv_ah_attr*, uint8_t*, uint16_t*) {
  return -EOPNOTSUPP;
}
// No device maps the application's memory, so a fork needs no precautions.
int ibv_dontfork_range(void*, size_t) { return 0; }
int ibv_dofork_range(void*, size_t) { return 0; }

// For librdmacm, which converts the kernel's answers with them.

void ibv_copy_ah_attr_from_kern(ibv_ah_attr*, ibv_kern_ah_attr*) {}
void ibv_copy_qp_attr_from_kern(ibv_qp_attr*, ibv_kern_qp_attr*) {}
void ibv_copy_path_rec_from_kern(ibv_sa_path_rec*, ibv_kern_path_rec*) {}
void ibv_copy_path_rec_to_kern(ibv_kern_path_rec*, ibv_sa_path_rec*) {}

// For drivers. A driver that is loaded registers itself and is not called afterwards.

bool verbs_allow_disassociate_destroy = false;

void ibv_register_driver(const char*, void*) {}
void verbs_register_driver_34(const void*) {}
void verbs_set_ops(void*, const void*) {}
void verbs_uninit_context(void*) {}
void verbs_init_cq(ibv_cq*, ibv_context*, ibv_comp_channel*, void*) {}
void* _verbs_init_and_alloc_context(ibv_device*, int, size_t, void*, uint32_t) {
  return unsupported<void>();
}
ibv_context* verbs_open_device(ibv_device*, void*) { return unsupported<ibv_context>(); }
void __verbs_log(void*, uint32_t, const char*, ...) {}
unsigned __ioctl_final_num_attrs(unsigned, void*) { return 0; }
int execute_ioctl(ibv_context*, void*) { return EOPNOTSUPP; }
int ibv_read_ibdev_sysfs_file(char*, size_t, void*, const char*, ...) {
  errno = EOPNOTSUPP;
  return -1;
}

int ibv_cmd_advise_mr() { return EOPNOTSUPP; }
int ibv_cmd_alloc_dm() { return EOPNOTSUPP; }
int ibv_cmd_alloc_mw() { return EOPNOTSUPP; }
int ibv_cmd_alloc_pd() { return EOPNOTSUPP; }
int ibv_cmd_attach_mcast() { return EOPNOTSUPP; }
int ibv_cmd_close_xrcd() { return EOPNOTSUPP; }
int ibv_cmd_create_ah() { return EOPNOTSUPP; }
int ibv_cmd_create_counters() { return EOPNOTSUPP; }
int ibv_cmd_create_cq() { return EOPNOTSUPP; }
int ibv_cmd_create_cq_ex() { return EOPNOTSUPP; }
int ibv_cmd_create_flow() { return EOPNOTSUPP; }
int ibv_cmd_create_flow_action_esp() { return EOPNOTSUPP; }
int ibv_cmd_create_qp() { return EOPNOTSUPP; }
int ibv_cmd_create_qp_ex() { return EOPNOTSUPP; }
int ibv_cmd_create_qp_ex2() { return EOPNOTSUPP; }
int ibv_cmd_create_rwq_ind_table() { return EOPNOTSUPP; }
int ibv_cmd_create_srq() { return EOPNOTSUPP; }
int ibv_cmd_create_srq_ex() { return EOPNOTSUPP; }
int ibv_cmd_create_wq() { return EOPNOTSUPP; }
int ibv_cmd_dealloc_mw() { return EOPNOTSUPP; }
int ibv_cmd_dealloc_pd() { return EOPNOTSUPP; }
int ibv_cmd_dereg_mr() { return EOPNOTSUPP; }
int ibv_cmd_destroy_ah() { return EOPNOTSUPP; }
int ibv_cmd_destroy_counters() { return EOPNOTSUPP; }
int ibv_cmd_destroy_cq() { return EOPNOTSUPP; }
int ibv_cmd_destroy_flow() { return EOPNOTSUPP; }
int ibv_cmd_destroy_flow_action() { return EOPNOTSUPP; }
int ibv_cmd_destroy_qp() { return EOPNOTSUPP; }
int ibv_cmd_destroy_rwq_ind_table() { return EOPNOTSUPP; }
int ibv_cmd_destroy_srq() { return EOPNOTSUPP; }
int ibv_cmd_destroy_wq() { return EOPNOTSUPP; }
int ibv_cmd_detach_mcast() { return EOPNOTSUPP; }
int ibv_cmd_free_dm() { return EOPNOTSUPP; }
int ibv_cmd_get_context() { return EOPNOTSUPP; }
int ibv_cmd_modify_cq() { return EOPNOTSUPP; }
int ibv_cmd_modify_flow_action_esp() { return EOPNOTSUPP; }
int ibv_cmd_modify_qp() { return EOPNOTSUPP; }
int ibv_cmd_modify_qp_ex() { return EOPNOTSUPP; }
int ibv_cmd_modify_srq() { return EOPNOTSUPP; }
int ibv_cmd_modify_wq() { return EOPNOTSUPP; }
int ibv_cmd_open_qp() { return EOPNOTSUPP; }
int ibv_cmd_open_xrcd() { return EOPNOTSUPP; }
int ibv_cmd_poll_cq() { return EOPNOTSUPP; }
int ibv_cmd_post_recv() { return EOPNOTSUPP; }
int ibv_cmd_post_send() { return EOPNOTSUPP; }
int ibv_cmd_post_srq_recv() { return EOPNOTSUPP; }
int ibv_cmd_query_context() { return EOPNOTSUPP; }
int ibv_cmd_query_device_any() { return EOPNOTSUPP; }
int ibv_cmd_query_mr() { return EOPNOTSUPP; }
int ibv_cmd_query_port() { return EOPNOTSUPP; }
int ibv_cmd_query_qp() { return EOPNOTSUPP; }
int ibv_cmd_query_srq() { return EOPNOTSUPP; }
int ibv_cmd_read_counters() { return EOPNOTSUPP; }
int ibv_cmd_reg_dm_mr() { return EOPNOTSUPP; }
int ibv_cmd_reg_dmabuf_mr() { return EOPNOTSUPP; }
int ibv_cmd_reg_mr() { return EOPNOTSUPP; }
int ibv_cmd_req_notify_cq() { return EOPNOTSUPP; }
int ibv_cmd_rereg_mr() { return EOPNOTSUPP; }
int ibv_cmd_resize_cq() { return EOPNOTSUPP; }

}  // extern "C"
