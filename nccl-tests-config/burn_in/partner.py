"""The TCP connection between the two machines of a run: rank 0 judges, rank 1 does what it asks
for. A message is a line of JSON."""

import dataclasses
import json
import socket
import time

from burn_in import perf
from burn_in.rails import End, Failure, Rail, printable

_MEET_LIMIT_S = 60
_HELLO_LIMIT_S = 10
_FIRST_LIMIT_S = 3  # a partner sends its hello as soon as it has connected
_MESSAGE_LIMIT_S = 300  # above what a measurement takes
_MOST_BYTES = 1 << 22
_PROGRAM = "nccl-gdr-burn-in "
_HELLO = _PROGRAM + "1"  # with the version of the messages


class OtherProgram(Failure):
    """What is at the other end is not a burn-in: a port scan, say, or another service."""


class Link:
    """The connection, and what the other machine has."""

    def __init__(self, connection, rails, limit_s=_HELLO_LIMIT_S):
        self._socket = connection
        self.address = connection.getsockname()[0]  # by which the other machine reaches this one
        self._lines = connection.makefile("r", encoding="utf-8", errors="replace")
        try:
            self.send({"hello": _HELLO, "rails": [dataclasses.asdict(rail) for rail in rails]})
            hello = self.receive(limit_s)
        except Failure as failure:
            raise OtherProgram(failure.text, failure.fix, ends=True)
        if not str(hello.get("hello")).startswith(_PROGRAM):
            raise OtherProgram("something else than nccl-gdr-burn-in answers",
                               "give --root HOST:PORT with a port that is free")
        try:
            if hello["hello"] != _HELLO:
                raise ValueError(hello["hello"])
            self.rails = [Rail(End(**rail["host"]), [End(**gpu) for gpu in rail["gpus"]])
                          for rail in hello["rails"]]
        except (KeyError, TypeError, ValueError):
            raise Failure("the other machine has another release of nccl-gdr-burn-in",
                          "install the same on both")

    def send(self, message):
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise _left(error)

    def receive(self, limit_s=_MESSAGE_LIMIT_S):
        try:
            self._socket.settimeout(limit_s)
            message = json.loads(self._lines.readline(_MOST_BYTES) or "null")
        except (OSError, ValueError, RecursionError) as error:
            raise _left(error)
        if not isinstance(message, dict):
            raise _left("its connection was closed")
        return message


def _left(error):
    return Failure(f"the other machine has left, or does not answer: {error}",
                   "look at what it printed, and start both again", ends=True)


def is_own(address):
    """Whether an address is one of this machine's: then it is the source of what is sent to it.
    That a socket can be bound shows nothing where net.ipv4.ip_nonlocal_bind is 1."""
    if address.startswith("127."):
        return True
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect((address, 9))  # sends nothing
        except OSError:
            return False
        return one.getsockname()[0] == address


def accept(port, rails, limit_s=_MEET_LIMIT_S):
    """Rank 0 waits for rank 1, at all addresses: a host's own name may lead to 127.0.1.1. Who else
    connects is dropped."""
    deadline = time.monotonic() + limit_s
    try:
        listener = socket.create_server(("", port))
    except OSError as error:
        raise Failure(f"cannot listen at TCP port {port}: {error.strerror}",
                      "give --root HOST:PORT with a port that is free")
    with listener:
        while time.monotonic() < deadline:
            listener.settimeout(max(deadline - time.monotonic(), 0.01))
            try:
                connection = listener.accept()[0]
            except socket.timeout:
                break
            try:
                return Link(connection, rails, _FIRST_LIMIT_S)
            except OtherProgram:
                connection.close()
    raise Failure(f"the other machine did not connect to TCP port {port} in {limit_s} s",
                  "start the same command on it, and let TCP through the firewall")


def connect(address, rails, limit_s=_MEET_LIMIT_S):
    """Rank 1 goes to rank 0 at (host, port), which may start later."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return Link(socket.create_connection(address, timeout=limit_s), rails)
        except OSError as error:
            if time.monotonic() > deadline:
                raise Failure(f"the other machine does not answer at {address[0]}:{address[1]}: "
                              f"{error}",
                              "start the same command on it, and let TCP through the firewall")
        time.sleep(0.2)


class There(perf.Here):
    """Measures from this machine to the other one, which runs rank 1."""

    def __init__(self, link, nccl_gdr):
        super().__init__(nccl_gdr, link.address)
        self._link = link

    def _run_second(self, job):
        self._link.send({"job": dataclasses.asdict(job)})
        answer = self._link.receive()
        if "failure" in answer:
            raise Failure(f"on the other machine: {printable(answer['failure'])}",
                          printable(answer["fix"]))
        return perf.Outcome(**answer["outcome"])


def serve(link, nccl_gdr):
    """What rank 1 does: runs its rank of what rank 0 asks for, until that ends the run. Returns the
    run's exit status."""
    while True:
        message = link.receive()
        if "exit_status" in message:
            return message["exit_status"]
        job = perf.Job(**message["job"])
        job.first, job.second = End(**job.first), End(**job.second)
        try:
            outcome = perf.start(job, nccl_gdr, 1).finish()
            link.send({"outcome": dataclasses.asdict(outcome)})
        except Failure as failure:
            if failure.ends:
                raise
            link.send({"failure": failure.text, "fix": failure.fix})
