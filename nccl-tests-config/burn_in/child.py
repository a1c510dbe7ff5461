"""The programs that measure: they run on the CPUs of the HCA, and none outlives this program."""

import ctypes
import dataclasses
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import typing

from burn_in.failure import Failure

_PR_SET_PDEATHSIG = 1
_LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp
_LIBC = ctypes.CDLL(None)


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


class Child:
    """A program that was started. Raises Failure where it cannot be."""

    def __init__(self, words, variables, cpus):
        def prepare():
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            try:
                os.sched_setaffinity(0, cpus or os.sched_getaffinity(0))
            except OSError:
                pass  # the container or the job has other CPUs

        self._files = [tempfile.TemporaryFile("w+", errors="replace") for _ in range(2)]
        try:
            self._process = subprocess.Popen(
                words, env={**os.environ, "LC_ALL": "C", **variables}, preexec_fn=prepare,
                stdin=subprocess.DEVNULL, stdout=self._files[0], stderr=self._files[1])
        except OSError as error:
            raise Failure(f"{words[0]} cannot be started: {error.strerror}")

    def finish(self, limit_s):
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

    def listens(self, port, limit_s):
        """Waits until it listens at the TCP port; False: it ended, or does not within the limit."""
        deadline = time.monotonic() + limit_s
        while self._process.poll() is None and time.monotonic() < deadline:
            if is_listening(port):
                return True
            time.sleep(0.02)
        return False


def is_listening(port, proc=pathlib.Path("/proc/net")):
    for name in ("tcp", "tcp6"):
        try:
            lines = (proc / name).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for words in map(str.split, lines):
            if words[3] == _LISTEN and int(words[1].rpartition(":")[2], 16) == port:
                return True
    return False


def free_port():
    """A TCP port that no program has now. Another one may take it before it is used."""
    with socket.socket() as one:
        one.bind(("", 0))
        return one.getsockname()[1]
