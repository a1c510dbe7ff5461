"""nccl-tests-config/compare as a whole over fakes of the programs of nccl-tests.

It runs in this process, which is much quicker than a process for each case; only the interrupted
one has its own.
"""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import types
import unittest
from unittest import mock

from paths import ROOT

_FAKE = pathlib.Path(__file__).resolve().with_name("fake_nccl_test")
_COMPARE = str(ROOT / "nccl-tests-config" / "compare")
_ONE = ("--collectives", "all_reduce")
_LOADER = importlib.machinery.SourceFileLoader("compare", _COMPARE)
compare = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare", _LOADER))
_LOADER.exec_module(compare)


class CompareCase(unittest.TestCase):
    """A folder with the programs, and a way to run compare in it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="compare test ")  # with a space on purpose
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.output = self.folder / "out"
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        for name in ("all_reduce_perf", "sendrecv_perf"):
            (self.folder / name).symlink_to(_FAKE)

    def environment(self):
        env = {name: value for name, value in os.environ.items()
               if not name.startswith(("NCCL_", "GDR_", "SOFTHCA_", "FAKE_"))}
        return {**env, "NCCL_TESTS_DIR": str(self.folder)}

    def compare(self, *arguments, end="32", status=0, **settings):
        words = ["--output", str(self.output), *(["--end", end] if end else []), *arguments]
        env = {**self.environment(), **settings}
        with mock.patch.dict(os.environ, env, clear=True), \
                contextlib.redirect_stdout(io.StringIO()) as out, \
                contextlib.redirect_stderr(io.StringIO()) as err:
            try:
                found = compare.main(words)
            except SystemExit as ended:  # of argparse
                found = ended.code
        done = types.SimpleNamespace(stdout=out.getvalue(), stderr=err.getvalue())
        self.assertEqual(found, status, done.stdout + done.stderr)
        return done

    def refused(self, text, *arguments, **settings):
        """The arguments are an error before the first run."""
        done = self.compare(*arguments, status=2, **settings)
        self.assertIn(text, done.stderr)
        self.assertNotIn("[1/", done.stderr)

    def rows(self, done, size=r"\d+"):
        """The cells of the tables' rows of that size."""
        return [row.split(" | ") for row in re.findall(rf"^\| +({size} .*) \|$",
                                                       re.sub(" +", " ", done.stdout), re.MULTILINE)]

    def record(self):
        return json.loads((self.output / "results.json").read_text())

    def commands(self):
        return {run["transport"]: run["command"] for run in self.record()["runs"]}

    def softhca(self, name="softhca"):
        (self.folder / name).mkdir()
        (self.folder / name / "libibverbs.so.1").write_text("SOFTHCA_CONFIG")
        return str(self.folder / name)


class ResultsTest(CompareCase):

    def test_ThreeTransports_GiveOneTableAProgramInAlternatingRounds(self):
        done = self.compare("--rounds", "2")
        self.assertIn("via NET/GDR/0/GDRDMA x1", done.stdout)
        self.assertIn("12 runs, 0 with a defect", done.stdout)
        rows = self.rows(done, "32")
        self.assertEqual(len(rows), 2)
        self.assertEqual(rows[0][-7:],
                         ["2.00", "2.00-2.00", "faster", "0.50", "0.50-0.50", "slower", "0"])
        self.assertRegex(done.stderr, r"\[1/12\] all_reduce_perf over gdr, round 1 of 2: \d s, ok; 11 more take about ")
        record = self.record()
        order = [(run["program"], run["transport"], run["repeat"]) for run in record["runs"]]
        self.assertEqual(order[:4], [("all_reduce_perf", "gdr", 0), ("all_reduce_perf", "ib", 0),
                                     ("all_reduce_perf", "socket", 0), ("sendrecv_perf", "gdr", 0)])
        self.assertEqual(order[6:8], [("all_reduce_perf", "ib", 1),
                                      ("all_reduce_perf", "socket", 1)])
        self.assertEqual(record["versions"]["NCCL"], "2.28.3+cuda13.0")
        self.assertIn("| gdr/ib |", (self.output / "table.md").read_text())
        self.assertIn("Using network GDR", (self.output / "sendrecv_perf.gdr.2.err").read_text())

    def test_ResultsReadAgain_GiveTheSameTable(self):
        first = self.compare("--transports", "gdr,ib", "--rounds", "2", *_ONE)
        self.output.rename(self.folder / "first")
        again = self.compare("--read", "gdr=first/*.gdr.*.json", "ib=first/*.ib.*.json", end=None)
        self.assertEqual(len(self.rows(again)), 3)
        self.assertEqual(self.rows(again), self.rows(first))

    def test_ExampleOfTheReadme_IsWhatComparePrints(self):
        text = (ROOT / "nccl-tests-config" / "README.md").read_text()
        example = text[text.index("$ nccl-tests-config/compare --transports"):].split("\n```", 1)[0]
        command, shown = example.split("\n", 1)
        (self.folder / "noise").mkdir()
        done = self.compare(*command.split()[2:], end=None, FAKE_NOISE=str(self.folder / "noise"))
        self.assertIn(shown.strip("\n"), done.stdout)

    def test_Preset_IsSourcedAndJudged(self):
        (self.folder / "lab.env").write_text("NCCL_IB_TC=106\n")
        figure = {
            "collective": "all_reduce", "nodes": 2, "gpus_per_node": 1, "bytes": 1 << 20,
            "kind": "derived", "source": "the fake's own rate"}
        for expected, status in ((28.0, 0), (40.0, 1)):  # the fake has 28.96 GB/s over GDR
            (self.folder / "expected.json").write_text(json.dumps(
                {"lab": {"machine": "a fake", "results": [{**figure, "busbw_gbs": expected}]}}))
            done = self.compare("--transports", "gdr,ib", *_ONE, "--preset", "./lab.env", end=None,
                                status=status)
            self.assertIn("NCCL_IB_TC=106", self.commands()["gdr"])
            self.assertIn("-e 1048576", self.commands()["gdr"])
        self.assertRegex(done.stdout, r"FAIL: gdr, all_reduce of 1M on 2 x 1 GPUs: 28\.9\d GB/s .*expected 40 GB/s")

    def test_Defects_FailWithTheirNames(self):
        transport = ("--transports", "gdr,ib", *_ONE)
        for defect, text, shown in (
                ("wrong", "3 wrong values at 16 B", "5.00-"), ("exit", "ended with exit code 1", ""),
                ("fallback", "silent fallback: the log has 'Using network Socket', not GDR", ""),
                ("no_rows", "no result", ""), ("nvlink", "no channel went over", ""),
                ("abort", "ended with exit code 134; no result: no JSON was written", "")):
            with self.subTest(defect):
                done = self.compare(*transport, FAKE_DEFECT=f"{defect}@GDR", status=1)
                self.assertIn(f"all_reduce_perf over gdr, round 1: {text}", done.stdout)
                self.assertIn("2 runs, 1 with a defect", done.stdout)
                row, = self.rows(done, "16")
                self.assertEqual(row[1] == "-", defect
                                 not in ("wrong", "exit"))  # left out of the table

    def test_RunThatFailsOutsideOfNccl_ShowsTheCauseOnce(self):
        done = self.compare("--transports", "gdr,ib", *_ONE, "--rounds", "2",
                            FAKE_DEFECT="unreachable@GDR", status=1)
        cause = "ssh: Could not resolve hostname node9: Name or service not known"
        self.assertIn(f"all_reduce_perf over gdr, round 1: the end of its standard error\n  {cause}\n", done.stdout)
        self.assertEqual(done.stdout.count(cause), 1)

    def test_RunThatHangs_IsStoppedAndTheRestGoesOn(self):
        done = self.compare("--transports", "gdr,ib", *_ONE, "--timeout", "1",
                            FAKE_DEFECT="hang@GDR", status=1)
        self.assertIn("gdr, round 1: ran out of time after 1 s", done.stdout)
        self.assertIn("2 runs, 1 with a defect", done.stdout)

    def test_Interrupt_WritesWhatWasMeasuredAndLeavesNoProgram(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                self.interrupt(number)
                deadline = time.monotonic() + 30
                while self.programs_left() and time.monotonic() < deadline:
                    time.sleep(0.05)  # one that was killed stays until init has read its status
                self.assertEqual(self.programs_left(), [])

    def programs_left(self):
        """The processes that were started with this test's folder and still run."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                if f"NCCL_TESTS_DIR={self.folder}\0".encode() in path.read_bytes() + b"\0":
                    found.append(path.parent.name)
            except OSError:
                continue  # it ended, or is another user's
        return found

    def interrupt(self, number):
        with subprocess.Popen([_COMPARE, "--output", str(self.output), "--transports", "gdr,ib", *_ONE],
                              env={**self.environment(), "FAKE_DEFECT": "hang@IB"}, cwd=self.folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            for line in process.stderr:
                if "over ib" in line:
                    process.send_signal(number)
                    break
            stdout, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertIn("Interrupted after 1 of 2 runs.", stdout)
        self.assertEqual(len(self.record()["runs"]), 1)


class RunsTest(CompareCase):

    def test_GpuDirect_IsForcedAndChecked(self):
        for choice, defect, status in (("on", "", 0), ("on", "staged", 1), ("off", "", 0)):
            self.compare("--gpudirect", choice, *_ONE, FAKE_DEFECT=defect, status=status)

    def test_SoftHca_ComesFirstInTheLibraryPathOnce(self):
        folder = self.softhca("soft hca")
        self.assertNotIn("software HCA", self.compare("--transports", "gdr", *_ONE).stdout)
        done = self.compare("--softhca", folder, "--transports", "gdr", *_ONE)
        self.assertIn("2 x Fake GPU, 2 ranks, over the software HCA, threads, ", done.stdout)
        self.assertIn(f"LD_LIBRARY_PATH='{folder}:", self.commands()["gdr"])
        self.assertIn("NCCL_NET_GDR_LEVEL=SYS", self.commands()["gdr"])
        for more in ((), ("--softhca", folder)):  # the preset asks for it, too
            self.compare("--preset", "one_host_softhca", *more, "--transports", "ib", *_ONE,
                         SOFTHCA_DIR=folder, status=1)  # its figure is of a larger size
            self.assertEqual(self.commands()["ib"].count(folder), 2)  # its variable, the library path

    def test_SoftHcaThatIsMissing_EndsWithTheReason(self):
        self.refused("there is no libibverbs.so.1 of the software HCA in /absent: build it",
                     "--transports", "gdr", "--preset", "one_host_softhca", SOFTHCA_DIR="/absent")

    def test_Command_HasWhatTheShellHadSetBefore(self):
        self.compare("--transports", "ib", "--plugin", "ucx", *_ONE, NCCL_ALGO="Tree",
                     NCCL_NET="IB", CUDA_VISIBLE_DEVICES="0,1", LD_LIBRARY_PATH="/some/where")
        commands = self.commands()
        for setting in ("NCCL_ALGO=Tree", "CUDA_VISIBLE_DEVICES=0,1", "LD_LIBRARY_PATH=/some/where",
                        "NCCL_NET=IB"):
            self.assertIn(f" {setting} ", " " + commands["ib"])
        self.assertTrue(commands["ucx"].startswith("env -u NCCL_NET "), commands["ucx"])
        for command in commands.values():
            self.assertNotIn("file=", command)
            self.assertNotIn("NCCL_TESTS_DIR", command)

    def test_Control_IsMeasuredInEveryRoundAndMakesTies(self):
        (self.folder / "noise").mkdir()
        (self.folder / "mine.env").write_text("# expects network IB\nNCCL_NET=IB\n")
        done = self.compare("--transports", "ib,./mine.env", "--control", "--rounds", "3", *_ONE,
                            FAKE_NOISE=str(self.folder / "noise"))
        self.assertRegex(done.stdout, r"Control: ib measured against itself differs by up to [1-4]\.\d % in a round")
        self.assertRegex(done.stdout, r"^all_reduce_perf: mine is as fast as ib: .*: 3 tie\.")
        self.assertEqual([run["transport"] for run in self.record()["runs"][:3]],
                         ["ib", "mine", "ib#2"])

    def test_TransportsOfEveryKind_AreComparedInOneSession(self):
        (self.folder / "mine.env").write_text("# expects network UCX\nNCCL_NET=UCX\n")
        done = self.compare("--transports", "gdr,gdr_no_gpudirect,ib,./mine.env", "--plugin", "ucx",
                            *_ONE, NCCL_NET="IB")
        for line in (
                "all_reduce_perf gdr_no_gpudirect: network GDR; via NET/GDR/0 x1, via NET/GDR/1 x1",
                "all_reduce_perf ucx: network UCX", "all_reduce_perf mine: network UCX"):
            self.assertIn(line, done.stdout)

    def test_OptionsThatDoNotFit_AreErrors(self):
        (self.folder / "fails.env").write_text("echo no such fabric >&2\nfalse\nNCCL_NET=UCX\n")
        (self.folder / "file").touch()
        for arguments, text in (
                (("--hostfile", "absent"), "--hostfile: there is no file absent"),
                (("--preset", "none"), "no preset none; there are"),
                (("--base", "socket", "--transports", "gdr,ib"), "--base socket is not among"),
                (("--read", "none.json"), "put the name of its side before it"),
                (("--rounds", "0"), "1 round"), (("--end", "much"), "'much' is not a size"),
                (("--softhca", "absent"), "there is no libibverbs.so.1 in"),
                (("--transports", "gdr,roce"), "there are gdr, gdr_no_gpudirect, "),
                (("--transports", "./fails.env"), "one_host.env: no such fabric"),
                (("--programs", "x"), "unrecognized arguments"),
                (("--output", "file"), "cannot write file"),
                (("--collectives", "alltoall"), "git clone https://github.com/NVIDIA/nccl-tests; make")):
            with self.subTest(arguments):
                self.refused(text, *arguments)

    def test_FolderOfNcclTestsThatIsWrong_IsAnErrorAlsoWithABuildInThePath(self):
        self.refused("all_reduce_perf was not found in /absent, /absent/build. To get it", *_ONE,
                     NCCL_TESTS_DIR="/absent", PATH=f"{self.folder}:{os.environ['PATH']}")
        self.refused("--read compares outputs of another machine", *_ONE, NCCL_TESTS_DIR="/absent")


class RanksPerNodeTest(CompareCase):
    _FOUR = ("--mode", "processes", "--ranks", "4")

    def setUp(self):
        super().setUp()
        mpirun = self.folder / "mpirun"
        mpirun.write_text(
            '#!/bin/sh\nwhile [ "$1" != "--" ] && [ "${1##*/}" != one_host_rank ]; do shift; done\n'
            'shift; exec "$@"\n')
        mpirun.chmod(0o755)
        self.path = f"{self.folder}:{os.environ['PATH']}"

    def test_Neighbours_UseNvlink_AndTheResultStatesIt(self):
        for more, nodes in (("--ranks-per-node", "2"), True), ((), False):
            done = self.compare("--transports", "gdr", *self._FOUR, *more, *_ONE, PATH=self.path,
                                GDR_RANKS_PER_NODE="4")
            command = self.commands()["gdr"]
            self.assertEqual("GDR_RANKS_PER_NODE=2" in command, nodes)
            self.assertEqual(command.startswith("env -u GDR_RANKS_PER_NODE "), not nodes, command)
            self.assertEqual("NCCL_MNNVL_ENABLE=0" in command, nodes)
            self.assertEqual("NCCL_P2P_DISABLE=1" in command, not nodes)
            self.assertEqual("4 ranks as 2 nodes" in done.stdout, nodes)

    def test_NumbersThatMakeNoNodes_AreErrors(self):
        self.refused("needs --mode processes", "--ranks-per-node", "2", PATH=self.path)
        for number in ("3", "0", "4"):
            self.refused(f"of {number} each", *self._FOUR, "--ranks-per-node", number,
                         PATH=self.path)

    def test_NeighboursThatWouldUseTheNetwork_AreAnError(self):
        (self.folder /
         "mine.env").write_text("# expects network GDR\nNCCL_NET=GDR\nNCCL_P2P_LEVEL=LOC\n")
        two = (*self._FOUR, "--ranks-per-node", "2", *_ONE)
        for arguments, settings, text in ((("--transports", "gdr"), {"NCCL_SHM_DISABLE": "1"},
                                           "NCCL_SHM_DISABLE=1 makes neighbours use"),
                                          (("--transports", "gdr", "--preset",
                                            "one_host_softhca"), {"SOFTHCA_DIR": self.softhca()},
                                           "by the preset one_host_softhca"),
                                          (("--transports", "./mine.env"), {}, "mine.env")):
            self.refused(text, *arguments, *two, PATH=self.path, **settings)
        self.compare("--transports", "gdr", *two, PATH=self.path, NCCL_P2P_DISABLE="0")


if __name__ == "__main__":
    unittest.main()
