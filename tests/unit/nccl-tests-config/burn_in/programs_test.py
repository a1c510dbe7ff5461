"""Measurements by a fake of `nccl-gdr perf`, on this machine and together with another one."""

import contextlib
import os
import pathlib
import re
import socket
import tempfile
import threading
import time
import unittest
from unittest import mock

import paths  # noqa: F401  (sets the module path)
from burn_in import partner, perf, plan
from burn_in.rails import Failure
from ends import end, rail

# FAKE: what happens. A rank's file has the place of each attempt, and the CPUs that it ran on.
_PROGRAM = """#!/usr/bin/env python3
import json, os, pathlib, socket, sys
words, what = sys.argv[1:], os.environ.get("FAKE")
option = lambda name: words[words.index(name) + 1]
ranks = [{"device_name": f"mlx5_{number}", "memory": "host"} for number in option("--dev").split(",")]
attempts = pathlib.Path(f"{sys.argv[0]}.rank{option('--rank')}")
with attempts.open("a") as file:
    print(option("--root"), sorted(os.sched_getaffinity(0)), file=file)
if what == "broken":
    sys.exit("nccl-gdr: rank 0 failed")
if what == "taken" and option("--rank") == "0" and len(attempts.read_text().splitlines()) < 3:
    sys.exit("bind: Address already in use")
host, port = option("--root").split(":")
if option("--rank") == "0":
    socket.create_server((host, int(port))).accept()
else:
    socket.create_connection((host, int(port)))
print(json.dumps({"ranks": ranks, "bandwidth": [{"average_mib_s": 1e12 / 8 / 2**20}]}))
"""
_HELLO = '{"hello": "nccl-gdr-burn-in %d", "rails": %s}\n'


def call(port, texts):
    """Connects to the port once for each text and sends it; with None, waits to be dropped."""
    for text in texts:
        while True:
            try:
                connection = socket.create_connection(("127.0.0.1", port))
                break
            except OSError:
                time.sleep(0.01)
        with connection:
            if text is not None:
                connection.sendall(text.encode())
                connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(OSError):
                connection.recv(1 << 16)


class ProgramsTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.program = pathlib.Path(folder.name) / "nccl-gdr"
        self.program.write_text(_PROGRAM, encoding="ascii")
        self.program.chmod(0o755)
        self.pair = plan.Case("remote", end(0), end(1))

    def set(self, value):
        patch = mock.patch.dict(os.environ, {"FAKE": value})
        patch.start()
        self.addCleanup(patch.stop)

    def attempts(self, rank):
        """The lines of a rank's file, which is removed."""
        file = self.program.with_name(f"nccl-gdr.rank{rank}")
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return lines

    def test_Here_MeasuresByAProgramOnTheCpusOfEachHca(self):
        allowed = sorted(os.sched_getaffinity(0))
        near = allowed[:1], allowed[-1:]
        # CPUs that this process may not use leave it those it has.
        for first, second, ran in ((*near, near), ([], [1 << 14], (allowed, allowed))):
            case = plan.Case("local", end(0, cpus=first), end(1, cpus=second))
            self.assertAlmostEqual(perf.Here(str(self.program)).measure(case, "bandwidth"), 1000)
            for rank, cpus in enumerate(ran):
                (line,) = self.attempts(rank)
                self.assertRegex(line, rf"^127\.0\.0\.1:\d+ {re.escape(str(cpus))}$")

    def test_RankThatCannotBegin_IsReportedWithoutTheOtherOne(self):
        self.set("broken")
        with self.assertRaisesRegex(Failure, "ended with status 1: rank 0 failed"):
            perf.Here(str(self.program)).measure(self.pair, "bandwidth")
        self.assertEqual((len(self.attempts(0)), self.attempts(1)), (1, []))
        with self.assertRaisesRegex(Failure, "/no/tool cannot be started: No such file"):
            perf.Here("/no/tool").measure(self.pair, "bandwidth")

    def test_GpuThatCudaHides_IsReportedByTheMachineThatHasIt(self):
        hidden = plan.loopback([rail(0, gpus=[3])])[1].first
        hidden.cuda = None
        link, thread, _ = self.meet(str(self.program))
        text = "CUDA does not show the GPU 0000:03:00.0 beside rail 0"
        for first, second, error in ((hidden, end(0), f"^{text}"),
                                     (end(0), hidden, f"^on the other machine: {text}")):
            case = plan.Case("remote", first, second)
            with self.assertRaisesRegex(Failure, error):
                partner.There(link, str(self.program)).measure(case, "bandwidth")
        (line,) = self.attempts(0)  # of the rank that waited for the other one
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(re.search(r":(\d+)", line)[1])))
        link.send({"exit_status": 3})
        thread.join()

    def test_ProgramThatDoesNotEnd_IsEnded(self):
        begun = self.program.with_name("begun")
        one = perf.Program(["sh", "-c", f"echo output; touch {begun}; exec sleep 60"], {})
        while not begun.exists():
            time.sleep(0.01)
        self.assertFalse(one.listens(perf.free_port(), limit_s=0.05))
        self.assertEqual(one.finish(0), perf.Outcome(None, "output\n", ""))

    def meet(self, tool_there):
        """The link of rank 0 to a machine with rail 0, which runs in a thread; its result follows."""
        port, found = perf.free_port(), []

        def other_machine():
            found.append(partner.serve(partner.connect(("127.0.0.1", port), [rail(0)]), tool_there))

        thread = threading.Thread(target=other_machine, daemon=True)
        thread.start()
        return partner.accept(port, [rail(0)]), thread, found

    def test_TwoMachines_MeasureTogether(self):
        for what, tool_there, error in (
                ("", self.program, None), ("taken", self.program, None),
                ("broken", self.program, "status 1: rank 0 failed"),
                ("", "/no/tool", "on the other machine: /no/tool cannot be started")):
            with self.subTest(what=what, tool_there=tool_there):
                self.set(what)
                link, thread, found = self.meet(str(tool_there))
                self.assertEqual((link.rails, link.address), ([rail(0)], "127.0.0.1"))
                there = partner.There(link, str(self.program))
                if error is None:
                    self.assertAlmostEqual(there.measure(self.pair, "bandwidth"), 1000)
                    first, second = self.attempts(0), self.attempts(1)
                    self.assertEqual((len(first), second), (3 if what == "taken" else 1, first[-1:]))
                else:
                    with self.assertRaisesRegex(Failure, error):
                        there.measure(self.pair, "bandwidth")
                link.send({"exit_status": 1})
                thread.join()
                self.assertEqual(found, [1])

    def test_OtherMachineThatIsMissing_IsReportedWithAFix(self):
        port = perf.free_port()
        for meet, where, text in (
                (partner.accept, port, f"did not connect to TCP port {port}"),
                (partner.connect, ("127.0.0.1", port), f"does not answer at 127.0.0.1:{port}")):
            with self.assertRaisesRegex(Failure, text) as caught:
                meet(where, [], limit_s=0.1)
            self.assertIn("start the same command", caught.exception.fix)
        with socket.create_server(("", port)), self.assertRaisesRegex(Failure, "cannot listen at"):
            partner.accept(port, [])

    def test_WhatDoesNotSpeakTheProtocol_IsReported(self):
        for answer, text in (
                ("SSH-2.0\n", "does not answer"), ("", "was closed"),
                ("[" * 99999, "does not answer"),
                ('{"hello": 1}\n', "something else"), ("{}\n", "something else"),
                ('{"hello": "nccl-gdr-burn-in 1"}\n', "another release"),
                (_HELLO % (0, "[]"), "another release"),
                (_HELLO % (1, '[{"host": {}, "gpus": []}]'), "another release"),
                (_HELLO % (1, "[1]"), "another release")):
            with socket.create_server(("127.0.0.1", 0)) as listener:
                theirs = socket.create_connection(listener.getsockname())
                ours = listener.accept()[0]
            with ours, theirs, self.assertRaisesRegex(Failure, text):
                theirs.sendall(answer.encode())
                theirs.shutdown(socket.SHUT_WR)
                partner.Link(ours, [])

    def test_WhoIsNotThePartner_IsDropped(self):
        """Rank 0 goes on waiting, but not for a partner of another release."""
        for others, last, error in (
                ([None], _HELLO % (1, "[]"), None),
                (["GET / HTTP/1.1\r\n\r\n", "{}\n"], _HELLO % (1, "[]"), None),
                ([""], _HELLO % (2, "[]"), "another release"),
                (["", "1\n"], "", "did not connect")):
            with self.subTest(others=others, last=last):
                port = perf.free_port()
                thread = threading.Thread(target=call, args=(port, [*others, last]), daemon=True)
                thread.start()
                with mock.patch.object(partner, "_FIRST_LIMIT_S", 0.3):
                    if error is None:
                        self.assertEqual(partner.accept(port, []).rails, [])
                    else:
                        with self.assertRaisesRegex(Failure, error):
                            partner.accept(port, [], limit_s=1)
                thread.join()

    def test_Address_OfThisMachine_IsKnown(self):
        for address, is_own in (("127.0.1.1", True), ("192.0.2.254", False)):
            self.assertEqual(partner.is_own(address), is_own)


if __name__ == "__main__":
    unittest.main()
