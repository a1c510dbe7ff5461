"""One measurement: a program listens on this machine, and another one, here or on the other
machine, connects to it and so begins the transfer."""

import dataclasses
import typing

from burn_in import child, perf, perftest
from burn_in.failure import Failure
from burn_in.rails import End

_LISTEN_LIMIT_S = 30  # CUDA takes seconds to start
_GRACE_S = 5  # for the end that listens, after the other one has ended
_ATTEMPTS = 3  # where another program takes the TCP port first


@dataclasses.dataclass
class Job:
    """What both ends of a measurement have in common."""
    by: str  # perftest.NAME or perf.NAME
    kind: str  # "bandwidth" of 4 MiB messages, "latency" of 8 bytes
    server: End  # listens
    client: End  # connects
    address: str  # of the server
    port: int

    def module(self):
        return perftest if self.by == perftest.NAME else perf


def start(job, role, tools):
    """Starts the program of one end of a job."""
    end = job.server if role == "server" else job.client
    if end.gpu is not None and end.cuda is None:
        raise Failure(f"CUDA does not show the GPU {end.gpu_address} to this process",
                      "measure in a job or container that has all GPUs, without "
                      "CUDA_VISIBLE_DEVICES; nccl-gdr doctor --check nvidia-driver,cuda-driver")
    program = job.module()
    return child.Child(program.words(job, role, tools), program.variables(job.kind), end.cpus)


class Here:
    """The end that connects, on this machine."""

    def __init__(self, tools):
        self._tools = tools

    def run(self, job):
        return start(job, "client", self._tools).finish(job.module().LIMIT_S)


def choose(wanted, here, there):
    """({whether memory of a GPU takes part: what measures}, why it is not perftest), by the Tools
    of both machines."""
    if wanted == "perf":
        return {False: perf.NAME, True: perf.NAME}, ""
    lacks = here.lacks or (there.lacks and f"on the other machine {there.lacks}")
    if wanted == perftest.NAME and lacks:
        raise Failure(f"--with perftest: {lacks}", "install the package perftest, or leave it out")
    # The ends of different versions may not understand each other.
    if not lacks and wanted == "auto" and here.version != there.version:
        lacks = f"perftest is {here.version} here and {there.version} on the other machine"
    if lacks:
        return {False: perf.NAME, True: perf.NAME}, lacks
    has_cuda = here.measures_gpus() and there.measures_gpus()
    return {False: perftest.NAME, True: perftest.NAME if has_cuda else perf.NAME}, ""


@dataclasses.dataclass
class Bench:
    tools: perftest.Tools
    partner: typing.Any  # runs the end that connects: Here, or There of the other machine
    programs: typing.Dict[bool, str]  # see choose()
    address: str = "127.0.0.1"  # by which the partner reaches this machine

    def by(self, case):
        return self.programs[case.uses_gpu()]

    def measure(self, case, kind):
        """Gb/s, or microseconds of half a round trip. Raises Failure."""
        # Of perftest the end that connects sends, of nccl-gdr perf the one that listens.
        swaps = self.by(case) == perftest.NAME and case.mode != "remote"
        ends = (case.second, case.first) if swaps else (case.first, case.second)
        for _ in range(_ATTEMPTS):
            job = Job(self.by(case), kind, *ends, self.address, child.free_port())
            server, client = self._run(job)
            if job.module().PORT_IS_TAKEN not in server.errors:
                return job.module().value(job, server, client)
        raise Failure("other programs took each TCP port that was free", "run it again")

    def _run(self, job):
        """The outcomes of both ends; None for the client where the server does not listen."""
        server = start(job, "server", self.tools)
        try:
            if not server.listens(job.port, _LISTEN_LIMIT_S):
                return server.finish(0), None
            client = self.partner.run(job)
        except BaseException:
            server.finish(0)
            raise
        return server.finish(_GRACE_S), client
