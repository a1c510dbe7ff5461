"""Measurements by programs that listen and connect as perftest's do, here and elsewhere."""

import contextlib
import os
import pathlib
import socket
import tempfile
import threading
import time
import unittest
from unittest import mock

import paths  # noqa: F401  (sets the module path)
from burn_in import bench, child, partner, perftest, plan
from burn_in.failure import Failure
from ends import end, rail

# FAKE: what happens. The number of the attempt is the size of a file.
_PROGRAM = """#!/usr/bin/env python3
import os, pathlib, socket, sys
options = dict(word.lstrip("-").partition("=")[::2] for word in sys.argv[1:])
if "version" in options or "help" in options:
    if os.environ.get("FAKE") == "unloadable":
        print("libx.so: cannot open")
        sys.exit(127)
    print("Version: 6.06\\n --use_cuda=<id>\\n --use_cuda_dmabuf")
    sys.exit()
what, attempts = os.environ.get("FAKE"), pathlib.Path(sys.argv[0] + ".attempts")
if sys.argv[-1].startswith("-"):  # listens
    attempts.write_text((attempts.read_text() if attempts.exists() else "") + ".")
    if what == "taken" and attempts.stat().st_size < 3:
        sys.exit(f"Couldn't listen to port {options['port']}")
    if what == "broken":
        sys.exit("IB device mlx5_0 not found")
    with socket.create_server(("", int(options["port"]))) as server:
        server.accept()[0].recv(1)
else:
    with socket.create_connection((sys.argv[-1], int(options["port"]))):
        print("#bytes #iterations BW peak[Gb/sec] BW average[Gb/sec]")
        print(options["size"], 100, 0.0, {"mlx5_0": 100, "mlx5_1": 200}[options["ib-dev"]])
"""


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
                connection.sendall(text)
                connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(OSError):
                connection.recv(1 << 16)


class ProgramsTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name in ("ib_write_bw", "ib_write_lat"):
            self.program = pathlib.Path(folder.name) / name
            self.program.write_text(_PROGRAM, encoding="ascii")
            self.program.chmod(0o755)
        self.set("PATH", f"{folder.name}:{os.environ['PATH']}")
        self.pair = plan.local([rail(0), rail(1)])[0]

    def set(self, name, value):
        patch = mock.patch.dict(os.environ, {name: value})
        patch.start()
        self.addCleanup(patch.stop)

    def measure(self, case, partner_of_run=None):
        tools = perftest.find("nccl-gdr")
        programs = {False: "perftest", True: "perftest"}
        meter = bench.Bench(tools, partner_of_run or bench.Here(tools), programs)
        return meter.measure(case, "bandwidth")

    def test_Perftest_InThePath_IsFound(self):
        self.assertEqual(perftest.find("tool"), perftest.Tools(
            "tool", "6.06", "", ["--use_cuda", "--use_cuda_dmabuf"]))
        self.set("FAKE", "unloadable")
        self.assertEqual(perftest.find("tool").lacks, "libx.so: cannot open")
        self.program.unlink()
        with mock.patch.dict(os.environ, {"PATH": str(self.program.parent)}):
            self.assertEqual(perftest.find("tool").lacks, "ib_write_lat is not in PATH")

    def test_FirstRail_Sends(self):
        self.assertEqual(self.measure(self.pair), 100)

    def test_PortThatAnotherProgramHas_IsReplaced(self):
        self.set("FAKE", "taken")
        self.assertEqual(self.measure(self.pair), 100)

    def test_ProgramThatDoesNotListen_IsReported(self):
        self.set("FAKE", "broken")
        with self.assertRaisesRegex(Failure, "status 1: IB device mlx5_0 not found"):
            self.measure(self.pair)

    def test_GpuThatCudaHides_IsReported(self):
        case = plan.loopback([rail(0, gpus=[3])])[1]
        case.first.cuda = None
        job = bench.Job("perftest", "bandwidth", case.first, case.second, "", 1)
        with self.assertRaisesRegex(Failure, "CUDA does not show the GPU 0000:03:00.0"):
            bench.start(job, "server", None)

    def test_ProgramThatDoesNotEnd_IsEnded(self):
        begun = self.program.with_name("begun")
        one = child.Child(["sh", "-c", f"echo output; touch {begun}; exec sleep 60"], {}, [])
        while not begun.exists():
            time.sleep(0.01)
        self.assertEqual(one.finish(0), child.Outcome(None, "output\n", ""))

    def meet(self, tools_there):
        """The link of rank 0 to a machine with rail 0, which runs in a thread; its result follows."""
        port, found = child.free_port(), []

        def other_machine():
            link = partner.connect(("127.0.0.1", port), [rail(0)], tools_there)
            found.append(partner.serve(link, tools_there))

        thread = threading.Thread(target=other_machine, daemon=True)
        thread.start()
        link = partner.accept(port, [rail(0)], perftest.Tools("here"))
        return link, thread, found

    def test_TwoMachines_MeasureTogether(self):
        link, thread, found = self.meet(perftest.Tools("there", "6.06"))
        self.assertEqual((link.tools.version, link.rails), ("6.06", [rail(0)]))
        self.assertEqual(link.address, "127.0.0.1")
        case = plan.Case("remote", end(0), end(1))
        self.assertEqual(self.measure(case, partner.There(link)), 200)
        case.second.gpu = 1
        with self.assertRaisesRegex(Failure, "on the other machine: CUDA does not show"):
            self.measure(case, partner.There(link))
        link.send({"exit_status": 1})
        thread.join()
        self.assertEqual(found, [1])

    def test_OtherMachineThatIsMissing_IsReportedWithAFix(self):
        port = child.free_port()
        for meet, where, text in (
                (partner.accept, port, f"did not connect to TCP port {port}"),
                (partner.connect, ("127.0.0.1", port), f"does not answer at 127.0.0.1:{port}")):
            with self.assertRaisesRegex(Failure, text) as caught:
                meet(where, [], perftest.Tools(""), limit_s=0.1)
            self.assertIn("start the same command", caught.exception.fix)
        with socket.create_server(("", port)), self.assertRaisesRegex(Failure, "cannot listen at"):
            partner.accept(port, [], perftest.Tools(""))

    def test_WhatDoesNotSpeakTheProtocol_IsReported(self):
        hello = '{"hello": "nccl-gdr-burn-in %d", "tools": %s, "rails": %s}\n'
        for answer, text in (
                ("SSH-2.0\n", "does not answer"), ("", "was closed"),
                ("[" * 99999, "does not answer"),
                ('{"hello": 1}\n', "something else"), ("{}\n", "something else"),
                ('{"hello": "nccl-gdr-burn-in 1"}\n', "another release"),
                (hello % (0, '{"nccl_gdr": ""}', "[]"), "another release"),
                (hello % (1, '{"nccl_gdr": "", "new": 1}', "[]"), "another release"),
                (hello % (1, "{}", "[]"), "another release"),
                (hello % (1, '{"nccl_gdr": ""}', '[{"host": {}, "gpus": []}]'), "another release"),
                (hello % (1, '{"nccl_gdr": ""}', "[1]"), "another release")):
            with socket.create_server(("127.0.0.1", 0)) as listener:
                theirs = socket.create_connection(listener.getsockname())
                ours = listener.accept()[0]
            with ours, theirs, self.assertRaisesRegex(Failure, text):
                theirs.sendall(answer.encode())
                theirs.shutdown(socket.SHUT_WR)
                partner.Link(ours, [], perftest.Tools(""))

    def test_WhoIsNotThePartner_IsDropped(self):
        """Rank 0 goes on waiting, but not for a partner of another release."""
        hello = b'{"hello": "nccl-gdr-burn-in %d", "tools": {"nccl_gdr": "there"}, "rails": []}\n'
        for others, last, error in (
                ([None], hello % 1, None), ([b"GET / HTTP/1.1\r\n\r\n"], hello % 1, None),
                ([b"\x16\x03\x01", b"{}\n"], hello % 1, None),
                ([b""], hello % 2, "another release"),
                ([b"", b"1\n"], b"", "did not connect")):
            with self.subTest(others=others, last=last):
                port = child.free_port()
                texts = [*others, last]
                thread = threading.Thread(target=call, args=(port, texts), daemon=True)
                thread.start()
                with mock.patch.object(partner, "_FIRST_LIMIT_S", 0.3):
                    if error is None:
                        link = partner.accept(port, [], perftest.Tools(""))
                        self.assertEqual(link.tools.nccl_gdr, "there")
                    else:
                        with self.assertRaisesRegex(Failure, error):
                            partner.accept(port, [], perftest.Tools(""), limit_s=1)
                thread.join()

    def test_Address_OfThisMachine_IsKnown(self):
        for address, is_own in (("127.0.1.1", True), ("192.0.2.254", False)):
            self.assertEqual(partner.is_own(address), is_own)


if __name__ == "__main__":
    unittest.main()
