"""`nccl-gdr perf sendrecv`: measures through the plugin, as NCCL's data goes, and verifies data."""

import ctypes
import dataclasses
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time
import typing

from burn_in.rails import End, Failure, printable

_PORT_IS_TAKEN = "Address already in use"
_ATTEMPTS = 3  # where another program takes the TCP port of a measurement first
_LIMIT_S = 180
_LISTEN_LIMIT_S = 30
_GRACE_S = 5  # for rank 0, after rank 1 has ended
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
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


@dataclasses.dataclass
class Job:
    """A measurement. Both machines of a run exchange it as JSON."""
    kind: str  # "bandwidth" of 4 MiB messages, "latency" of 8 bytes
    first: End  # of rank 0, which sends
    second: End
    address: str  # of the machine of rank 0, where the ranks meet
    port: int

    def ends(self):
        return [self.first, self.second]


@dataclasses.dataclass
class Outcome:
    """How a program ended. `status` is as subprocess has it, or None where it ran too long."""
    status: typing.Optional[int]
    output: str = ""
    errors: str = ""

    def how(self):
        if self.status is None:
            return "did not end in time"
        if self.status < 0:
            return f"was ended by signal {-self.status} ({signal.strsignal(-self.status)})"
        return f"ended with status {self.status}"


class Program:
    """One that was started on these CPUs, and ends with this one. Raises Failure where it cannot be
    started."""

    def __init__(self, command, variables, cpus=()):
        def prepare():
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            try:
                os.sched_setaffinity(0, cpus or os.sched_getaffinity(0))
            except OSError:
                pass  # the container or the job has other CPUs

        self._files = [tempfile.TemporaryFile("w+", errors="replace") for _ in range(2)]
        try:
            self._process = subprocess.Popen(
                command, env={**os.environ, "LC_ALL": "C", **variables}, stdin=subprocess.DEVNULL,
                preexec_fn=prepare, stdout=self._files[0], stderr=self._files[1])
        except OSError as error:
            raise Failure(f"{command[0]} cannot be started: {error.strerror}")

    def finish(self, limit_s=_LIMIT_S):
        """Waits for its end, or ends it; returns the outcome."""
        try:
            status = self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
            self._process.kill()
            self._process.wait()
        texts = []
        for file in self._files:
            file.seek(0)
            texts.append(file.read())
            file.close()
        return Outcome(status, *texts)

    def listens(self, port, limit_s=_LISTEN_LIMIT_S):
        """Waits until it listens at the TCP port; False: it ended, or does not within the limit."""
        deadline = time.monotonic() + limit_s
        while self._process.poll() is None and time.monotonic() < deadline:
            if _is_listening(port):
                return True
            time.sleep(0.02)
        return False


def _is_listening(port):
    tables = [pathlib.Path("/proc/net", name) for name in ("tcp", "tcp6")]
    text = "".join(one.read_text(encoding="ascii") for one in tables if one.exists())
    return re.search(f":{port:04X} [0-9A-F:]+ 0A ", text) is not None  # TCP_LISTEN


def free_port():
    """A TCP port that no program has now. Another one may take it before it is used."""
    with socket.socket() as one:
        one.bind(("", 0))
        return one.getsockname()[1]


def start(job, nccl_gdr, rank):
    """Starts one rank of a job, on the CPUs near its HCA."""
    end = job.ends()[rank]
    if end.gpu is not None and end.cuda is None:
        raise Failure(f"CUDA does not show the GPU {end.gpu_address} beside {end.name()}",
                      "measure in a job or container that has all GPUs, without "
                      "CUDA_VISIBLE_DEVICES; nccl-gdr doctor --check nvidia-driver,cuda-driver")
    return Program(words(job, nccl_gdr, rank), variables(job.kind), end.cpus)


def words(job, nccl_gdr, rank):
    memory = ["host" if end.gpu is None else f"cuda:{end.cuda}" for end in job.ends()]
    return [nccl_gdr, "perf", "sendrecv", *_TESTS[job.kind],
            "--root", f"{job.address}:{job.port}", "--rank", str(rank),
            "--dev", ",".join(str(end.device) for end in job.ends()), "--memory", ",".join(memory),
            "--timeout", "60", "--json", "-"]


def variables(kind):
    return {**_VARIABLES, **(_IMPATIENT if kind == "latency" else {})}


class Here:
    """Measures with both ends on this machine. Each has a program of its own, as their HCAs may be
    near different CPUs."""

    def __init__(self, nccl_gdr, address="127.0.0.1"):
        self._nccl_gdr, self._address = nccl_gdr, address

    def measure(self, case, kind):
        """Gb/s, or microseconds of half a round trip. Raises Failure."""
        for _ in range(_ATTEMPTS):
            job = Job(kind, case.first, case.second, self._address, free_port())
            outcomes = self._run(job)
            if _PORT_IS_TAKEN not in outcomes[0].errors:
                return value(job, outcomes)
        raise Failure("other programs took each TCP port that was free", "run it again")

    def _run(self, job):
        """The outcomes of rank 0 and, where that got as far as to listen, of rank 1."""
        first = start(job, self._nccl_gdr, 0)
        try:
            others = [self._run_second(job)] if first.listens(job.port) else []
        except BaseException:
            first.finish(0)
            raise
        return [first.finish(_GRACE_S), *others]

    def _run_second(self, job):
        return start(job, self._nccl_gdr, 1).finish()


def value(job, outcomes):
    """Gb/s or microseconds, as rank 0 reports them, if it is certain what was measured. Its outcome
    comes first."""
    if outcomes[0].status != 0:
        raise _failure(outcomes)
    try:
        report = json.loads(outcomes[0].output)
        for rank, end in zip(report["ranks"], job.ends()):
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


def _failure(outcomes):
    """What the outcomes mean, at least one of which is a failure."""
    failed = [one for one in outcomes if one.status != 0]
    cause = next((one for one in failed if one.status == _TRANSFER_FAILED), failed[0])
    text, _, fix = _causes("\n".join(one.errors for one in outcomes)).partition(". Fix: ")
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
