"""`nccl-gdr perf sendrecv`: measures through the plugin, as NCCL's data goes, and verifies data."""

import json

from burn_in.failure import Failure, printable

NAME = "nccl-gdr perf"
LIMIT_S = 180
PORT_IS_TAKEN = "Address already in use"
_TRANSFER_FAILED = 1  # the exit status
_TESTS = {"bandwidth": ["--test", "bw", "-b", "4M", "-e", "4M", "--seconds", "2"],
          "latency": ["--test", "lat", "-b", "8", "-e", "8", "-n", "1000"]}
# A rail that fails must not be replaced by another one, whose bandwidth would be measured.
_VARIABLES = {"GDR_NCCL_FAILOVER": "0"}
# The latency shows whether rails reach each other, and gives up early: 4.096 us x 2^16 x (7 + 1)
# are 2 s until a message is lost, where the default is over 30 s, and a queue pair is not moved to
# RTR for a minute.
_IMPATIENT = {"NCCL_IB_TIMEOUT": "16", "NCCL_IB_RETRY_CNT": "7", "NCCL_IB_MQP_RETRY_CNT": "5"}
_WARNING = " NCCL WARN NET/GDR : "
_CALLS = ("init: ", "listen: ", "connect: ", "accept: ", "regMr: ", "regMrDmaBuf: ")
_PREFIX = "nccl-gdr: "
_MOST_LINES = 4


def words(job, role, tools):
    """The command of the end that listens ("server": rank 0, which sends) or connects."""
    ends = (job.server, job.client)
    memory = ["host" if end.gpu is None else f"cuda:{end.cuda}" for end in ends]
    return [tools.nccl_gdr, "perf", "sendrecv", *_TESTS[job.kind],
            "--root", f"{job.address}:{job.port}", "--rank", "0" if role == "server" else "1",
            "--dev", ",".join(str(end.device) for end in ends), "--memory", ",".join(memory),
            "--timeout", "60", "--json", "-"]


def variables(kind):
    return {**_VARIABLES, **(_IMPATIENT if kind == "latency" else {})}


def value(job, server, client):
    """Gb/s or microseconds, as rank 0 reports them, if it is certain what was measured."""
    if client is None or server.status != 0:
        raise _failure([server, client] if client else [server])
    try:
        report = json.loads(server.output)
        for rank, end in zip(report["ranks"], (job.server, job.client)):
            _check_end(rank, end)
        if job.kind == "latency":
            return report["latency"][0]["typical_us"]
        return report["bandwidth"][0]["average_mib_s"] * 8 * 2**20 / 1e9
    except (ValueError, LookupError, TypeError) as error:
        raise Failure(f"the result of nccl-gdr perf cannot be read: {error!r}")


def _check_end(rank, end):
    hca, memory = rank["device_name"].partition(":")[0], rank["memory"]
    if hca != end.hca:
        raise Failure(f"device {end.device} of the plugin is {hca}, and not {end.hca}")
    if end.gpu is not None and f"({end.gpu_address})" not in memory.lower():
        raise Failure(f"the memory was that of {memory}, and not of the GPU {end.gpu_address}")


def _failure(ends):
    """What the outcomes of the ends mean, at least one of which has failed."""
    failed = [end for end in ends if end.status != 0]
    cause = next((end for end in failed if end.status == _TRANSFER_FAILED), failed[0])
    text, _, fix = _causes("\n".join(end.errors for end in ends)).partition(". Fix: ")
    return Failure(f"nccl-gdr perf {cause.how()}: {text or 'it printed no error'}",
                   fix or "run nccl-gdr conformance, and nccl-gdr doctor on every machine",
                   is_transfer=cause.status == _TRANSFER_FAILED)


def _causes(errors):
    """What the plugin's log states as the cause, else what perf prints, in one line."""
    lines = errors.splitlines()
    for line in lines:
        text = line.partition(_WARNING)[2]
        if " <-> " in text or text.startswith(_CALLS):
            return printable(text)
    own = [line.strip() for line in lines if " NCCL " not in line]
    return printable("; ".join(own[:_MOST_LINES]).replace(_PREFIX, ""))
