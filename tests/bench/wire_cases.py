"""The cases of the cost model, and what NCCL's built-in IB transport asks of the HCA in each."""

import dataclasses
import math

from wire_model import End, Request


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    bytes: int
    grouped: int = 1
    ahead: int = 8          # receives posted ahead; NCCL has up to 8 steps of a channel in flight
    qps: int = 1            # NCCL_IB_QPS_PER_CONNECTION
    split: bool = False     # NCCL_IB_SPLIT_DATA_ON_QPS
    routing: bool = False   # NCCL_IB_ADAPTIVE_ROUTING
    gpu: bool = False
    standby: bool = False   # another rail stands by, which only this plugin has

    def environment(self):
        return {"NCCL_IB_QPS_PER_CONNECTION": str(self.qps),
                "NCCL_IB_SPLIT_DATA_ON_QPS": str(int(self.split)),
                "NCCL_IB_ADAPTIVE_ROUTING": str(int(self.routing)),
                "GDR_NCCL_STANDBY_RAILS": str(int(self.standby))}

    def receives(self):
        """Receives of the shorter and of the longer run. The difference is a multiple of the periods of
        what is done once in 16, 48, 64 or 256 times."""
        return (64, 320) if self.bytes > 1 << 17 else (256, 1024)


_SIZES = {"8 B": 8, "4 KiB": 4 << 10, "64 KiB": 64 << 10, "1 MiB": 1 << 20}


def _cases():
    yield Case("8 B, one at a time", 8, ahead=1)
    for name, size in _SIZES.items():
        yield Case(name, size)
    for name, size in _SIZES.items():
        yield Case(f"{name}, 8 grouped", size, grouped=8)
    for name, size in _SIZES.items():
        yield Case(f"{name}, adaptive routing", size, routing=True)
    yield Case("64 KiB, 8 grouped, adaptive routing", 64 << 10, grouped=8, routing=True)
    for name in ("8 B", "64 KiB", "1 MiB"):
        yield Case(f"{name}, 4 QPs", _SIZES[name], qps=4)
    for name in ("8 B", "64 KiB", "1 MiB"):
        yield Case(f"{name}, 4 QPs, split", _SIZES[name], qps=4, split=True)
    yield Case("64 KiB, 8 grouped, 4 QPs, split", 64 << 10, grouped=8, qps=4, split=True)
    # The software HCA copies between GPUs in a thread of its own, so that only one at a time repeats exactly.
    yield Case("8 B, GPU", 8, ahead=1, gpu=True)
    yield Case("1 MiB, GPU", 1 << 20, ahead=1, gpu=True)
    yield Case("64 KiB, 8 grouped, GPU", 64 << 10, grouped=8, ahead=1, gpu=True)
    for name in ("8 B", "64 KiB", "1 MiB"):
        yield Case(f"{name}, standby rail", _SIZES[name], standby=True)
    for name in ("8 B", "64 KiB"):
        yield Case(f"{name}, 8 grouped, standby rail", _SIZES[name], grouped=8, standby=True)


CASES = {case.name: case for case in _cases()}

_SLOT = 64               # sizeof(ncclIbSendFifo)
_THRESHOLD = 8192        # NCCL_IB_AR_THRESHOLD
_CLEAR_TO_SEND_PERIOD = 256  # MAX_REQUESTS: one clear-to-send in so many is signalled


def builtin_ib(case):
    """(sender, receiver) of NCCL 2.28.3, src/transport/net_ib.cc: ncclIbMultiSend(), ncclIbIrecv(),
    ncclIbPostFifo() and ncclIbIflush(), for one port at each end."""
    queue_pairs = case.qps if case.split else 1
    sent = {}

    def post(opcode, size, signaled):
        request = Request(opcode, size, False, signaled)
        sent[request] = sent.get(request, 0) + 1 / case.grouped

    chunk = math.ceil(math.ceil(case.bytes / queue_pairs) / 128) * 128
    for number in range(queue_pairs):
        length = max(0, min(case.bytes - number * chunk, chunk))
        apart = case.grouped > 1 or (case.routing and case.bytes > _THRESHOLD)
        for _ in range(case.grouped if apart else 0):
            post("RDMA_WRITE", length, False)
        if not apart:
            post("RDMA_WRITE_WITH_IMM", length, True)
        else:
            post("RDMA_WRITE_WITH_IMM", 4 * case.grouped if case.grouped > 1 else 0, True)
    each = queue_pairs / case.grouped
    sender = End(sent, doorbells=each, send_completions=each)
    signaled = 1 / _CLEAR_TO_SEND_PERIOD
    slots = _SLOT * case.grouped
    posted = {Request("RDMA_WRITE", slots, False, False): (1 - signaled) / case.grouped,
              Request("RDMA_WRITE", slots, False, True): signaled / case.grouped}
    flushes = 1 / case.grouped if case.gpu else 0
    if flushes:
        posted[Request("RDMA_READ", 1, False, True)] = flushes
    receiver = End(posted, doorbells=1 / case.grouped + flushes, receives=each, receive_doorbells=each,
                   send_completions=signaled / case.grouped + flushes, receive_completions=each)
    return sender, receiver
