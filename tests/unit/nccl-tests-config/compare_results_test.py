import json
import shutil
import subprocess
import unittest

from compare_case import CompareCase
from paths import ROOT


class CompareResultsTest(CompareCase):
    """What compare makes of its runs."""

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

    def test_Json_IsReadForItsDigits(self):
        (self.folder / "out").mkdir()
        (self.folder / "out" / "all_reduce_perf.gdr.1.json").write_text("of an earlier comparison")
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

    def test_ExampleOfTheReadme_IsWhatComparePrints(self):
        text = (ROOT / "nccl-tests-config" / "README.md").read_text()
        example = text[text.index("$ nccl-tests-config/compare --transports"):].split("\n```", 1)[0]
        command, shown = example.split("\n", 1)
        (self.folder / "noise").mkdir()
        done = self.compare(*command.split()[2:], end=None, FAKE_NOISE=str(self.folder / "noise"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(shown.strip("\n"), done.stdout)

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
        self.assertIn("base.json is not comparable: these runs do not measure 32", done.stderr)
        self.assertNotIn("[1/2]", done.stderr)  # found before the runs
        forced = self.compare(*arguments, "--end", "16", "--baseline", "base.json", "--force")
        self.assertEqual(forced.returncode, 0, forced.stdout)
        self.assertIn("4 sizes: 0 slower", forced.stdout)

    def test_BaselineOfASideWhoseRunsFail_FailsWithTableAndPage(self):
        arguments = ("--transports", "gdr,ib", "--collectives", "all_reduce")
        self.compare(*arguments, "--save-baseline", "base.json")
        done = self.compare(*arguments, "--baseline", "base.json", FAKE_DEFECT="fallback@GDR")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("gdr, round 1: silent fallback", done.stdout)
        self.assertIn("all_reduce_perf over gdr was not measured, as its runs failed", done.stdout)
        self.assertIn("0 of 3 sizes slower than the baseline", done.stdout)
        self.assertIn("as its runs failed", (self.output / "report.html").read_text())

    def test_BaselineOfOtherHosts_IsRefusedWithTableAndPage(self):
        arguments = ("--transports", "gdr,ib", "--collectives", "all_reduce")
        self.compare(*arguments, "--save-baseline", "base.json")
        path = self.folder / "base.json"
        path.write_text(path.read_text().replace('"host"', '"elsewhere"'))
        done = self.compare(*arguments, "--baseline", "base.json")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("base.json is not comparable: other hosts: host, in the baseline elsewhere",
                      done.stdout)
        self.assertIn("other hosts", (self.output / "report.html").read_text())

    def test_BaselineOfFailedRuns_IsWrittenByForceOnly(self):
        arguments = ("--transports", "gdr,ib", "--collectives", "all_reduce", "--save-baseline",
                     "base.json")
        done = self.compare(*arguments, FAKE_DEFECT="wrong@GDR")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("base.json was not written, as 1 of 2 runs are not as requested", done.stderr)
        self.assertFalse((self.folder / "base.json").exists())
        forced = self.compare(*arguments, "--force", FAKE_DEFECT="wrong@GDR")
        self.assertEqual(forced.returncode, 1)
        self.assertIn("The baseline is in base.json.", forced.stdout)

    def test_OutputFolderThatCannotBeMade_IsAnError(self):
        (self.folder / "out").touch()
        run = subprocess.run([str(self.folder / "all_reduce_perf")], capture_output=True, check=True,
                             env={**self.environment(), "NCCL_NET": "GDR",
                                  "NCCL_DEBUG_FILE": "/dev/null"})
        (self.folder / "run.txt").write_bytes(run.stdout)
        for more in ((), ("--read", "gdr=run.txt")):
            done = self.compare(*more, end=None)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn("cannot write", done.stderr)
            self.assertIn("give --output DIR", done.stderr)
            self.assertNotIn("Traceback", done.stderr)

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
        short = self.compare("--transports", "gdr", "--collectives", "all_reduce", "--preset", "./lab.env")
        self.assertEqual(short.returncode, 1)
        self.assertIn("compare: The figure of preset lab for all_reduce of 1M on 2 x 1 GPUs cannot be judged",
                      short.stderr)
        self.assertIn("gdr could not be judged by preset lab", short.stdout)

    def test_OptionsThatDoNotFit_AreErrors(self):
        for arguments, text in ((("--read", "ib=x", "--repeat", "2"), "leave out --repeat"),
                                (("--collectives", "all_reduce", "--programs", "x_perf"),
                                 "give one of them"), (("--tolerance", "much"),
                                                       "'much' is no percentage such as 5%"),
                                (("--baseline", "none.json"), "cannot read none.json"),
                                (("--save-baseline", "absent/base.json"), "there is no folder absent"),
                                (("--hostfile", "absent"), "--hostfile: there is no file absent"),
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
