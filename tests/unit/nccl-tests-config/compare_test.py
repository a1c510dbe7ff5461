import json
import os
import signal
import subprocess
import time
import unittest
from pathlib import Path

from compare_case import CompareCase
from paths import ROOT


class CompareTest(CompareCase):
    """What is run, and which runs count."""

    def test_ThreeTransports_Compared_GiveOneTableAProgram(self):
        done = self.compare("--repeat", "2")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("via NET/GDR/0/GDRDMA x1", done.stdout)
        self.assertIn("12 runs, 0 not as requested", done.stdout)
        rows = [line.split() for line in done.stdout.splitlines() if line.split()[:1] == ["32"]]
        self.assertEqual(len(rows), 2)
        self.assertEqual(rows[0][-7:],
                         ["2.00", "2.00-2.00", "faster", "0.50", "0.50-0.50", "slower", "0"])

    def test_DefectOfARun_Compared_FailsWithItsName(self):
        for defect, text in {"wrong": "3 wrong values at 16 B", "fallback": "silent fallback",
                             "no_rows": "printed no result", "nvlink": "no channel went over",
                             "exit": "ended with exit code 1"}.items():
            with self.subTest(defect):
                done = self.compare("--transports", "gdr", FAKE_DEFECT=defect)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(text, done.stdout)

    def test_StagedChannels_WithGpuDirectOn_Fail(self):
        self.assertEqual(self.compare("--gpudirect", "on").returncode, 0)
        self.assertEqual(self.compare("--gpudirect", "on", FAKE_DEFECT="staged").returncode, 1)
        self.assertEqual(self.compare("--gpudirect", "off").returncode, 0)

    def test_SoftHca_Asked_ComesFirstInTheLibraryPath(self):
        softhca = self.folder / "soft hca"
        softhca.mkdir()
        (softhca / "libibverbs.so.1").touch()
        done = self.compare("--softhca", str(softhca), "--transports", "gdr")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        command = json.loads((self.output / "results.json").read_text())["runs"][0]["command"]
        self.assertIn(f"LD_LIBRARY_PATH='{softhca}:", command)
        self.assertIn("NCCL_NET_GDR_LEVEL=SYS", command)

    def path_with_mpirun(self):
        mpirun = self.folder / "mpirun"
        mpirun.write_text('#!/bin/sh\nwhile [ "$1" != "--" ] && [ "${1##*/}" != one_host_rank ]; do shift; done\n'
                          'shift; exec "$@"\n')
        mpirun.chmod(0o755)
        return f"{self.folder}:{os.environ['PATH']}"

    _FOUR_RANKS = ("--transports", "gdr", "--mode", "processes", "--ranks", "4")

    def test_RanksPerNode_NeighboursUseNvlink_AndTheResultStatesIt(self):
        path, common = self.path_with_mpirun(), self._FOUR_RANKS
        for more, nodes in (("--ranks-per-node", "2"), True), ((), False):
            done = self.compare(*common, *more, PATH=path, GDR_RANKS_PER_NODE="4")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            command = json.loads((self.output / "results.json").read_text())["runs"][0]["command"]
            self.assertEqual("GDR_RANKS_PER_NODE=2" in command, nodes)
            self.assertEqual(command.startswith("env -u GDR_RANKS_PER_NODE "), not nodes, command)
            self.assertEqual("NCCL_MNNVL_ENABLE=0" in command, nodes)
            self.assertEqual("NCCL_P2P_DISABLE=1" in command, not nodes)
            self.assertEqual("4 ranks as 2 nodes" in done.stdout, nodes)
        for arguments, reason in ((("--ranks-per-node", "2"), "needs --mode processes"),
                                  ((*common, "--ranks-per-node", "3"), "of 3 each: give 1 or 2, or --ranks 6\n"),
                                  ((*common, "--ranks-per-node", "0"), "of 0 each: give 1 or 2\n"),
                                  ((*common, "--ranks-per-node", "4"), "of 4 each: give 1 or 2, or --ranks 8\n")):
            done = self.compare(*arguments, PATH=path)
            self.assertEqual(done.returncode, 2)
            self.assertIn(reason, done.stderr)

    def test_RanksPerNode_WhereNeighboursWouldUseTheNetwork_EndsWithTheFix(self):
        softhca = self.folder / "softhca"
        softhca.mkdir()
        (softhca / "libibverbs.so.1").touch()
        (self.folder / "mine.env").write_text("# expects network GDR\nNCCL_NET=GDR\nNCCL_P2P_LEVEL=LOC\n")
        own = ("--transports", "./mine.env", *self._FOUR_RANKS[2:])
        path = self.path_with_mpirun()
        for arguments, settings, texts in (
                (self._FOUR_RANKS, {"NCCL_SHM_DISABLE": "1"}, ("NCCL_SHM_DISABLE=1", ": unset NCCL_SHM_DISABLE\n")),
                ((*self._FOUR_RANKS, "--preset", "one_host_softhca"), {"SOFTHCA_DIR": str(softhca)},
                 ("NCCL_P2P_DISABLE=1", "preset one_host_softhca sets it", ": leave out --preset one_host_softhca;")),
                (own, {}, ("NCCL_P2P_LEVEL=LOC", "mine.env sets it", ": remove it there\n"))):
            done = self.compare(*arguments, "--ranks-per-node", "2", PATH=path, **settings)
            self.assertEqual(done.returncode, 2, done.stderr)
            for text in texts:
                self.assertIn(text, done.stderr)
        done = self.compare(*self._FOUR_RANKS, "--ranks-per-node", "2", PATH=path, NCCL_P2P_DISABLE="0")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_SoftHcaThatIsMissing_EndsWithTheReason(self):
        done = self.compare("--transports", "gdr", "--preset", "one_host_softhca", SOFTHCA_DIR="/absent")
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no libibverbs.so.1 of the software HCA in /absent: build it", done.stderr)
        # A copy does not find the build of this checkout, and this nccl-gdr has no software HCA.
        env = (ROOT / "nccl-tests-config" / "env" / "softhca.env").read_text()
        (self.folder / "copy.env").write_text(f"# expects network GDR\n{env}")
        (self.folder / "nccl-gdr").write_text("#!/bin/sh\nexit 125\n")
        (self.folder / "nccl-gdr").chmod(0o755)
        for value in ({}, {"SOFTHCA_DIR": ""}):
            done = self.compare("--transports", "./copy.env", PATH=f"{self.folder}:{os.environ['PATH']}",
                                **value)
            self.assertEqual(done.returncode, 2)
            self.assertIn("there is no software HCA on this machine: build it", done.stderr)
            self.assertNotIn("[1/2]", done.stderr)

    def test_EnvironmentFileThatFails_EndsWithItsWords(self):
        (self.folder / "mine.env").write_text("echo no such fabric >&2\nfalse\nNCCL_NET=UCX\n")
        done = self.compare("--transports", "./mine.env")
        self.assertEqual(done.returncode, 2)
        self.assertIn("one_host.env: no such fabric", done.stderr)

    def test_MissingProgram_Compared_SaysWhereItLooked(self):
        (self.folder / "sendrecv_perf").unlink()
        done = self.compare()
        self.assertEqual(done.returncode, 2)
        self.assertIn(str(self.folder), done.stderr)
        self.assertIn("git clone https://github.com/NVIDIA/nccl-tests; make", done.stderr)

    def test_UnknownTransport_Compared_NamesTheKnownOnes(self):
        done = self.compare("--transports", "gdr,roce")
        self.assertEqual(done.returncode, 2)
        self.assertIn(
            "there are gdr, gdr_no_ar, gdr_no_gpudirect, gdr_staging, ib, ib_no_ar, ib_no_gpudirect, socket",
            done.stderr)

    def test_SoftHca_OfAPreset_IsRecorded(self):
        softhca = self.folder / "softhca"
        softhca.mkdir()
        (softhca / "libibverbs.so.1").touch()
        for arguments in (("--preset", "one_host_softhca"), ("--preset", "one_host_softhca", "--softhca", str(softhca))):
            done = self.compare(*arguments, "--transports", "ib", SOFTHCA_DIR=str(softhca), end="8")
            record = json.loads((self.output / "results.json").read_text())
            self.assertTrue(record["softhca"], done.stdout + done.stderr)
            self.assertTrue(record["machine"]["softhca"])
            self.assertEqual(record["runs"][0]["command"].count(str(softhca)), 2)  # its variable, the library path
        self.compare("--transports", "ib")
        self.assertFalse(json.loads((self.output / "results.json").read_text())["softhca"])

    def test_Command_HasWhatTheShellHadSetBefore(self):
        done = self.compare("--transports", "ib", "--plugin", "ucx", "--collectives", "all_reduce", NCCL_ALGO="Tree",
                            NCCL_NET="IB", CUDA_VISIBLE_DEVICES="0,1", LD_LIBRARY_PATH="/some/where")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        runs = json.loads((self.output / "results.json").read_text())["runs"]
        commands = {run["transport"]: run["command"] for run in runs}
        for setting in ("NCCL_ALGO=Tree", "CUDA_VISIBLE_DEVICES=0,1", "LD_LIBRARY_PATH=/some/where", "NCCL_NET=IB"):
            self.assertIn(f" {setting} ", " " + commands["ib"])
        self.assertTrue(commands["ucx"].startswith("env -u NCCL_NET "), commands["ucx"])
        for command in commands.values():
            self.assertNotIn("file=", command)
            self.assertNotIn("NCCL_TESTS_DIR", command)

    def test_Progress_IsShownOnTheStandardError(self):
        done = self.compare("--transports", "gdr,ib", "--programs", "all_reduce_perf")
        self.assertRegex(
            done.stderr,
            r"\[1/2\] all_reduce_perf over gdr, round 1 of 1: \d s, ok, last 32 .* GB/s; 1 more "
            r"take about \d s, until ")
        self.assertNotIn("[1/2]", done.stdout)

    def test_Control_IsMeasuredInEveryRoundAndMakesTies(self):
        (self.folder / "noise").mkdir()
        done = self.compare("--transports",
                            "ib,ib_no_ar",
                            "--control",
                            "--rounds",
                            "3",
                            "--collectives",
                            "all_reduce",
                            FAKE_NOISE=str(self.folder / "noise"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("9 runs, 0 not as requested", done.stdout)
        self.assertRegex(
            done.stdout,
            r"Control: ib measured against itself differs by up to [1-4]\.\d % in a round")
        self.assertRegex(done.stdout, r"ib_no_ar has \S+ times the speed of ib .*: 3 tie\.")
        record = json.loads((self.output / "results.json").read_text())
        self.assertEqual([run["transport"] for run in record["runs"][:3]],
                         ["ib", "ib_no_ar", "ib#2"])

    def test_TransportsOfEveryKind_AreComparedInOneSession(self):
        (self.folder / "mine.env").write_text("# expects network UCX\nNCCL_NET=UCX\n")
        done = self.compare("--transports",
                            "gdr,gdr_no_gpudirect,ib,./mine.env",
                            "--plugin",
                            "ucx",
                            "--collectives",
                            "all_reduce",
                            "--end",
                            "64",
                            NCCL_NET="IB")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(
            "all_reduce_perf gdr_no_gpudirect: network GDR; via NET/GDR/0 x1, via NET/GDR/1 x1",
            done.stdout)
        self.assertIn("all_reduce_perf ucx: network UCX", done.stdout)
        self.assertIn("all_reduce_perf mine: network UCX", done.stdout)

    def test_PluginThatNcclCannotLoad_IsAFallback(self):
        done = self.compare("--transports",
                            "ib",
                            "--plugin",
                            "socket",
                            "--collectives",
                            "all_reduce",
                            FAKE_DEFECT="fallback@SOCKET")
        self.assertEqual(done.returncode, 1)
        self.assertIn(
            "socket, round 1: silent fallback: the log has 'Using network Socket', not the plugin's network",
            done.stdout)
        row = next(line for line in done.stdout.splitlines() if line.split()[:1] == ["8"])
        self.assertEqual(row.split()[-3:], ["-", "-", "0"])  # left out: no bandwidth, no ratio

    def test_AbortedRun_KeepsItsRowsAndFails(self):
        done = self.compare("--transports", "gdr,ib", "--collectives", "all_reduce", "--end", "64",
                            FAKE_DEFECT="abort@GDR")
        self.assertEqual(done.returncode, 1)
        self.assertIn("gdr, round 1: ended with exit code 134", done.stdout)
        rows = {
            line.split()[0]: line.split()
            for line in done.stdout.splitlines()
            if line.split()[:1] in (["8"], ["64"])
        }
        self.assertEqual(rows["8"][-2], "2.00")
        self.assertEqual(rows["64"][-2], "-")

    def test_RunThatFailsOutsideOfNccl_ShowsTheCause(self):
        done = self.compare("--transports", "gdr,ib", "--collectives", "all_reduce", "--rounds", "2",
                            FAKE_DEFECT="unreachable@GDR")
        self.assertEqual(done.returncode, 1)
        cause = "ssh: Could not resolve hostname node9: Name or service not known"
        self.assertIn(f"all_reduce_perf over gdr, round 1: the end of {self.output}/all_reduce_perf.gdr.1.err\n"
                      f"  {cause}\n", done.stdout)
        self.assertEqual(done.stdout.count(cause), 1)  # once for both rounds
        self.assertIn(f"<pre>{cause}</pre>", (self.output / "report.html").read_text())

    def test_RunThatHangs_IsStoppedAndTheRestGoesOn(self):
        done = self.compare("--transports",
                            "gdr,ib",
                            "--collectives",
                            "all_reduce",
                            "--timeout",
                            "2",
                            FAKE_DEFECT="hang@GDR")
        self.assertEqual(done.returncode, 1)
        self.assertIn("gdr, round 1: ran out of time after 2 s", done.stdout)
        self.assertIn("2 runs, 1 not as requested", done.stdout)

    def test_Interrupt_WritesWhatWasMeasured(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                self.interrupt(number)
                self.wait_until_no_program_is_left()

    def wait_until_no_program_is_left(self):
        """A program that was killed stays in /proc until its parent, or init, has read its status."""
        deadline = time.monotonic() + 30
        while self.programs_left() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(self.programs_left(), [])

    def programs_left(self):
        """The processes that were started with this test's folder and still run."""
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if f"NCCL_TESTS_DIR={self.folder}\0".encode() in path.read_bytes() + b"\0":
                    found.append(path.parent.name)
            except OSError:
                continue  # it ended, or is another user's
        return found

    def interrupt(self, number):
        env = {**self.environment(), "FAKE_DEFECT": "hang@IB"}
        self.output = self.folder / "out"
        with subprocess.Popen([
                str(ROOT / "nccl-tests-config" / "compare"), "--output",
                str(self.output), "--transports", "gdr,ib", "--collectives", "all_reduce"
        ],
                              env=env,
                              cwd=self.folder,
                              text=True,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            for line in process.stderr:
                if "over ib" in line:
                    process.send_signal(number)
                    break
            stdout, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertIn("Interrupted after 1 of 2 runs.", stdout)
        self.assertEqual(len(json.loads((self.output / "results.json").read_text())["runs"]), 1)
        self.assertTrue((self.output / "report.html").exists())


if __name__ == "__main__":
    unittest.main()
