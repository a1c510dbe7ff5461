"""What work requests cost on an HCA of mlx5, and on the wire: arithmetic on shapes of requests.

A request is (opcode, bytes, inline, signaled) with the opcode as verbs names it, without IBV_WR_.
Sources: WQE layouts and doorbells from providers/mlx5 of rdma-core 64 (mlx5dv.h and wqe.h; qp.c,
post_send_db(), mlx5_post_recv(); verbs.c, mlx5_calc_send_wqe()). Headers from the InfiniBand
Architecture Specification, volume 1 (5.2 and 9), and its annex A17 for RoCE v2.
"""

import collections
import dataclasses
import math

WQE_SEGMENT = 16       # mlx5_wqe_ctrl_seg, mlx5_wqe_raddr_seg, mlx5_wqe_data_seg: 16 bytes each
WQE_INLINE_HEADER = 4  # mlx5_wqe_inline_seg
WQE_BLOCK = 64         # MLX5_SEND_WQE_BB
BLUE_FLAME = 256       # bytes of a BlueFlame buffer (half of log_bf_reg_size 9)
CQE = 64
BTH, RETH, IMMEDIATE, AETH, ICRC = 12, 16, 4, 4, 4
# Around a packet of the transport: LRH and VCRC; Ethernet, IPv4, UDP, FCS, preamble and gap.
LINKS = {"InfiniBand": 8 + 2, "RoCE v2": 14 + 20 + 8 + 4 + 8 + 12}


@dataclasses.dataclass(frozen=True)
class Request:
    opcode: str
    bytes: int
    inline: bool
    signaled: bool

    @property
    def local(self):
        """A flush: a read of the receiver's HCA from its own node, which no cable carries."""
        return self.opcode == "RDMA_READ"


@dataclasses.dataclass
class End:
    """What one end asks of its HCA, for one message on average."""
    requests: dict  # Request: count
    doorbells: float = 0
    receives: float = 0
    receive_doorbells: float = 0
    send_completions: float = 0
    receive_completions: float = 0

    def total(self, function=lambda request: 1):
        return sum(function(request) * count for request, count in self.requests.items())


def requests_of(ports):
    """Counter of the Requests of ports of the software HCA's counters file."""
    found = collections.Counter()
    for port in ports:
        for shape in port["requests"]:
            found[Request(shape["opcode"], shape["bytes"], shape["inline"], shape["signaled"])] += shape["count"]
    return found


def wqe_bytes(request):
    """Control and remote address segments, and the data: a pointer, or the bytes themselves."""
    if request.bytes == 0:
        return 2 * WQE_SEGMENT
    data = WQE_SEGMENT
    if request.inline:
        data = math.ceil((WQE_INLINE_HEADER + request.bytes) / WQE_SEGMENT) * WQE_SEGMENT
    return 2 * WQE_SEGMENT + data


def wqe_blocks(request):
    return math.ceil(wqe_bytes(request) / WQE_BLOCK)


def payload_read(request):
    """Bytes that the requester's HCA fetches from memory besides the WQE."""
    return 0 if request.inline or request.local else request.bytes


def packets(request, mtu):
    return 0 if request.local else max(1, math.ceil(request.bytes / mtu))


def wire_bytes(request, mtu, link):
    """Of all packets of a write, payload and padding included, without the acknowledgement."""
    if request.local:
        return 0
    count = packets(request, mtu)
    headers = count * (LINKS[link] + BTH + ICRC) + RETH
    if request.opcode == "RDMA_WRITE_WITH_IMM":
        headers += IMMEDIATE
    return headers + math.ceil(request.bytes / 4) * 4


def acknowledgement_bytes(link):
    return LINKS[link] + BTH + AETH + ICRC


def bus(end):
    """What crosses the bus of one end: (writes of the CPU, reads of the HCA, their bytes, writes of the HCA
    that complete something, their bytes). Data that arrives is left out, since it is the message."""
    per_doorbell = end.total() / end.doorbells if end.doorbells else 0
    # A doorbell of one inline request carries the WQE, which is then not fetched.
    pushed = {request: count for request, count in end.requests.items()
              if request.inline and per_doorbell <= 1 and wqe_bytes(request) <= BLUE_FLAME}
    fetched = {request: count for request, count in end.requests.items() if request not in pushed}
    reads = min(sum(fetched.values()), end.doorbells) + sum(
        count for request, count in end.requests.items() if payload_read(request))
    read_bytes = sum(wqe_blocks(request) * WQE_BLOCK * count for request, count in fetched.items())
    completions = end.send_completions + end.receive_completions
    return {"cpu_writes": end.doorbells,
            "cpu_write_bytes": sum(wqe_blocks(request) * WQE_BLOCK * count
                                   for request, count in pushed.items())
                               + 8 * (end.doorbells - min(end.doorbells, sum(pushed.values()))),
            "hca_reads": reads,
            "hca_read_bytes": read_bytes,
            "receive_wqe_bytes": end.receives * WQE_SEGMENT,
            "cqes": completions,
            "cqe_bytes": completions * CQE}
