import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

from paths import ROOT

_FAKE = pathlib.Path(__file__).resolve().with_name("fake_nccl_test")


class CompareTest(unittest.TestCase):
    """Runs the script itself over fakes of the programs of nccl-tests."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="compare test ")  # with a space on purpose
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("all_reduce_perf", "sendrecv_perf"):
            (self.folder / name).symlink_to(_FAKE)

    def environment(self):
        env = {name: value for name, value in os.environ.items()
               if not name.startswith(("NCCL_", "GDR_", "SOFTHCA_", "FAKE_"))}
        return {**env, "NCCL_TESTS_DIR": str(self.folder)}

    def compare(self, *arguments, end="32", **settings):
        env = {**self.environment(), **settings}
        arguments = [*(["--end", end] if end else []), *arguments]
        self.output = self.folder / "out"
        return subprocess.run(
            [str(ROOT / "nccl-tests-config" / "compare"), "--output", str(self.output), *arguments],
            env=env, cwd=self.folder, capture_output=True, text=True, check=False)

    def test_ThreeTransports_Compared_GiveOneTableAProgram(self):
        done = self.compare("--repeat", "2")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("via NET/GDR/0/GDRDMA x1", done.stdout)
        self.assertIn("12 runs, 0 not as requested", done.stdout)
        rows = [line.split() for line in done.stdout.splitlines() if line.split()[:1] == ["32"]]
        self.assertEqual(len(rows), 2)
        self.assertEqual(rows[0][-7:],
                         ["2.00", "2.00-2.00", "faster", "0.50", "0.50-0.50", "slower", "0"])

    def test_Results_Saved_HoldLogsJsonAndMarkdown(self):
        self.compare("--transports", "gdr,socket", "--repeat", "2")
        record = json.loads((self.output / "results.json").read_text())
        order = [(run["program"], run["transport"], run["repeat"]) for run in record["runs"][:3]]
        self.assertEqual(order, [("all_reduce_perf", "gdr", 0), ("all_reduce_perf", "socket", 0),
                                 ("sendrecv_perf", "gdr", 0)])
        self.assertIn("NCCL_P2P_DISABLE=1", record["runs"][0]["command"])
        self.assertEqual(record["nccl"], "2.28.3+cuda13.0")
        self.assertIn("| gdr/socket |", (self.output / "table.md").read_text())
        self.assertIn("Using network GDR", (self.output / "sendrecv_perf.gdr.2.err").read_text())

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

    def test_MissingProgram_Compared_SaysWhereItLooked(self):
        (self.folder / "sendrecv_perf").unlink()
        done = self.compare()
        self.assertEqual(done.returncode, 2)
        self.assertIn(str(self.folder), done.stderr)

    def test_UnknownTransport_Compared_NamesTheKnownOnes(self):
        done = self.compare("--transports", "gdr,roce")
        self.assertEqual(done.returncode, 2)
        self.assertIn(
            "there are gdr, gdr_no_ar, gdr_no_gpudirect, gdr_staging, ib, ib_no_ar, ib_no_gpudirect, socket",
            done.stderr)

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
                    process.send_signal(signal.SIGINT)
                    break
            stdout, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertIn("Interrupted after 1 of 2 runs.", stdout)
        self.assertEqual(len(json.loads((self.output / "results.json").read_text())["runs"]), 1)
        self.assertTrue((self.output / "report.html").exists())

    def test_Json_IsReadForItsDigits(self):
        done = self.compare("--transports", "gdr,ib", "--collectives", "all_reduce", "--json",
                            "--end", "1M")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        record = json.loads((self.output / "results.json").read_text())
        found = record["runs"][0]["table"]["rows"][-1]["out_of_place"]["time_us"]
        self.assertEqual(found, 10 + (1 << 20) / 40e3)  # 36.2144; the text has 36.21
        self.assertIn("-J", record["runs"][0]["command"])

    def test_OutputFolder_ReadAgain_GivesTheSameTable(self):
        def tables(done):
            return [line for line in done.stdout.splitlines()
                    if line.split()[:1] in (["8"], ["16"], ["32"]) and "runs" not in line]

        first = self.compare("--transports", "gdr,ib", "--repeat", "2")
        self.output.rename(self.folder / "first")
        again = self.compare("--read", "first", end=None)
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
        self.assertEqual(len(tables(again)), 6)
        self.assertEqual(tables(again), tables(first))

    def test_PageAndPictures_AreWritten(self):
        self.compare("--transports", "gdr,ib")
        page = (self.output / "report.html").read_text()
        self.assertEqual(page.count("<svg"), 2)
        self.assertIn("4 runs, 0 not as requested", page)
        self.assertIn("NCCL_P2P_DISABLE=1", page)
        for program in ("all_reduce_perf", "sendrecv_perf"):
            self.assertIn("</svg>", (self.output / f"{program}.svg").read_text())

    def test_PictureWithoutConverter_NamesThePackage(self):
        tools = self.folder / "tools"
        tools.mkdir()
        for name in ("bash", "python3", "env", "dirname"):
            (tools / name).symlink_to(shutil.which(name))
        done = self.compare("--transports",
                            "gdr,ib",
                            "--collectives",
                            "all_reduce",
                            PATH=str(tools))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("apt-get install librsvg2-bin", done.stdout)
        self.assertTrue((self.output / "all_reduce_perf.svg").exists())
        self.assertFalse((self.output / "all_reduce_perf.png").exists())

    def test_Baseline_AcceptsItselfAndFindsWhatIsSlower(self):
        arguments = ("--transports", "gdr,ib", "--collectives", "all_reduce", "--repeat", "2")
        self.assertEqual(self.compare(*arguments, "--save-baseline", "base.json").returncode, 0)
        same = self.compare(*arguments, "--baseline", "base.json")
        self.assertEqual(same.returncode, 0, same.stdout + same.stderr)
        self.assertIn("6 sizes: 0 slower, 0 undecided, 0 faster, 6 same", same.stdout)
        slower = self.compare(*arguments, "--baseline", "base.json", FAKE_DEFECT="slow@GDR")
        self.assertEqual(slower.returncode, 1)
        self.assertIn(
            "slower: all_reduce_perf over gdr at 32: 12.00 us (12.00-12.00), baseline 10.00 us (10.00-10.00), "
            "-16.7 % in speed", slower.stdout)
        self.assertIn("3 of 6 sizes slower than the baseline", slower.stdout)
        self.assertIn("3 of 6 sizes slower than the baseline",
                      (self.output / "report.html").read_text())
        tolerant = self.compare(*arguments,
                                "--baseline",
                                "base.json",
                                "--tolerance",
                                "20%",
                                FAKE_DEFECT="slow@GDR")
        self.assertEqual(tolerant.returncode, 0)

    def test_BaselineOfOtherSizes_IsRefusedUnlessForced(self):
        arguments = ("--transports", "gdr,ib", "--collectives", "all_reduce")
        self.compare(*arguments, "--save-baseline", "base.json")
        done = self.compare(*arguments, "--end", "16", "--baseline", "base.json")
        self.assertEqual(done.returncode, 2)
        self.assertIn(
            "base.json is not comparable: all_reduce_perf over gdr was not measured at 32",
            done.stderr)
        forced = self.compare(*arguments, "--end", "16", "--baseline", "base.json", "--force")
        self.assertEqual(forced.returncode, 0, forced.stdout)
        self.assertIn("4 sizes: 0 slower", forced.stdout)

    def test_Preset_IsSourcedAndJudged(self):
        (self.folder / "lab.env").write_text("NCCL_IB_TC=106\n")
        figure = {
            "collective": "all_reduce",
            "nodes": 2,
            "gpus_per_node": 1,
            "bytes": 1 << 20,
            "kind": "derived",
            "source": "the fake's own rate"
        }
        for expected, status in ((28.0, 0),
                                 (40.0,
                                  1)):  # the fake has 28.96 GB/s over GDR and half of it over IB
            (self.folder / "expected.json").write_text(json.dumps(
                {"lab": {"machine": "a fake", "results": [{**figure, "busbw_gbs": expected}]}}))
            done = self.compare("--transports",
                                "gdr,ib",
                                "--collectives",
                                "all_reduce",
                                "--preset",
                                "./lab.env",
                                end=None)
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
            self.assertIn("NCCL_IB_TC=106", (self.output / "table.md").read_text())
            self.assertIn("-e 1048576", (self.output / "table.md").read_text())
        self.assertRegex(
            done.stdout,
            r"FAIL: gdr, all_reduce of 1M on 2 x 1 GPUs: 28\.9\d GB/s .*expected 40 GB/s \(derived\)"
        )
        self.assertIn("gdr does not reach the figures of preset lab", done.stdout)

    def test_OptionsThatDoNotFit_AreErrors(self):
        for arguments, text in ((("--read", "ib=x", "--repeat", "2"), "leave out --repeat"),
                                (("--collectives", "all_reduce", "--programs", "x_perf"),
                                 "give one of them"), (("--tolerance", "much"),
                                                       "'much' is no percentage such as 5%"),
                                (("--baseline", "none.json"), "cannot read none.json"),
                                (("--preset", "none"), "no preset none; there are"),
                                (("--base", "socket", "--transports", "gdr,ib"),
                                 "--base socket is not among"),
                                (("--read", "none.out"),
                                 "put the name of its transport before it")):
            with self.subTest(arguments):
                done = self.compare(*arguments)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn(text, done.stderr)
                self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
