// The exported functions of libibverbs for protection domains, memory, CQs and QPs.
#include <cerrno>
#include <cstring>

#include "softhca/verbs/context.h"
#include "softhca/verbs/cq.h"
#include "softhca/verbs/mr.h"
#include "softhca/verbs/pd.h"
#include "softhca/verbs/qp.h"
#include "softhca/verbs/runtime.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) { return softhca::alloc_pd(context); }

int ibv_dealloc_pd(ibv_pd* pd) { return softhca::dealloc_pd(pd); }

ibv_pd* ibv_import_pd(ibv_context* context, uint32_t handle) {
  return softhca::import_pd(context, handle);
}

void ibv_unimport_pd(ibv_pd* pd) { softhca::unimport_pd(pd); }

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
  return softhca::reg_mr(pd, address, length, reinterpret_cast<uintptr_t>(address),
                         static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, size_t length, uint64_t iova, int access) {
  return softhca::reg_mr(pd, address, length, iova, static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned access) {
  return softhca::reg_mr(pd, address, length, iova, access);
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                          int access) {
  return softhca::reg_dmabuf_mr(pd, offset, length, iova, fd, static_cast<unsigned>(access));
}

int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, size_t length, int access) {
  return softhca::rereg_mr(mr, flags, pd, address, length, static_cast<unsigned>(access));
}

int ibv_dereg_mr(ibv_mr* mr) { return softhca::dereg_mr(mr); }

ibv_mr* ibv_import_mr(ibv_pd* pd, uint32_t handle) { return softhca::import_mr(pd, handle); }

void ibv_unimport_mr(ibv_mr* mr) { softhca::unimport_mr(mr); }

ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel,
                      int vector) {
  ibv_cq_init_attr_ex attr = {};
  attr.cqe = cqe < 0 ? 0 : static_cast<uint32_t>(cqe);
  attr.cq_context = cq_context;
  attr.channel = channel;
  attr.comp_vector = static_cast<uint32_t>(vector);
  return softhca::create_cq(context, attr);
}

int ibv_resize_cq(ibv_cq* cq, int cqe) { return softhca::resize_cq(cq, cqe); }

int ibv_destroy_cq(ibv_cq* cq) { return softhca::destroy_cq(cq); }

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  ibv_qp_init_attr_ex extended = {};
  memcpy(&extended, attr, sizeof *attr);
  extended.comp_mask = IBV_QP_INIT_ATTR_PD;
  extended.pd = pd;
  ibv_qp* qp = softhca::create_qp(pd->context, &extended);
  if (qp != nullptr) attr->cap = extended.cap;
  return qp;
}

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) { return &softhca::Qp::of(qp).ex; }

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  return softhca::modify_qp(qp, attr, mask);
}

int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init_attr) {
  return softhca::query_qp(qp, attr, mask, init_attr);
}

int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) { return softhca::set_ece(qp, ece); }

int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) { return softhca::query_ece(qp, ece); }

// 0: no promise. Only the last 8 bytes of a write are ordered after the others
// (datapath/host_copy.h).
int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, uint32_t) { return 0; }

int ibv_destroy_qp(ibv_qp* qp) { return softhca::destroy_qp(qp); }

}  // extern "C"
