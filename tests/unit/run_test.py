import pathlib
import shutil
import subprocess
import tempfile
import unittest

from paths import ROOT

_RUN = ROOT / "run"

_CTEST_LOG = """\
Test project /tree/build
      Start  1: bdf_test.Bdf.Parses
 1/4 Test  #1: bdf_test.Bdf.Parses ..............   Passed    0.01 sec
 2/4 Test  #2: verbs_test.Verbs.Opens ...........***Skipped   0.01 sec
 3/4 Test  #3: rail_test.Rail.Opens .............***Failed    0.02 sec
rail_test.cc:12: Failure
the rail is open
      Start  4: rail_test.Rail.Closes
 4/4 Test  #4: rail_test.Rail.Closes ............   Passed    0.01 sec

75% tests passed, 1 tests failed out of 4

Total Test time (real) =   0.06 sec
"""
_CLEAN_LOG = """\
1/2 Test #1: a ...   Passed    0.01 sec
2/2 Test #2: b ...   Passed    0.01 sec

100% tests passed, 0 tests failed out of 2
"""


def _bash(script, *arguments, text=""):
    """The output of a script that has sourced ./run, with `text` on descriptor 3."""
    with tempfile.TemporaryFile("w+") as file:
        file.write(text)
        file.seek(0)
        done = subprocess.run(
            ["bash", "-c", f'exec 3<&0; run="$1"; shift; source "$run"; {script}', "bash",
             str(_RUN), *arguments],
            stdin=file, capture_output=True, text=True, check=True)
        return done.stdout


class CountTest(unittest.TestCase):

    def count(self, *logs):
        with tempfile.TemporaryDirectory(prefix="run test ") as folder:
            names = []
            for number, log in enumerate(logs):
                names.append(str(pathlib.Path(folder) / f"{number}.log"))
                pathlib.Path(names[-1]).write_text(log)
            return _bash('for log in "$@"; do count_tests preset "$log"; done; '
                         'echo "$passed $failed $skipped $broken"', *names).strip()

    def test_MixedLog_Counted_CountsSkippedApart(self):
        self.assertEqual(self.count(_CTEST_LOG), "2 1 1 0")

    def test_FailedTest_Counted_IsNamedInTheSummaryWithItsOutput(self):
        with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
            log.write(_CTEST_LOG)
            log.flush()
            summary = _bash('count_tests preset "$1"; printf "%s\\n" "${summary[@]}"', log.name)
        self.assertEqual(summary.splitlines(), [
            "preset: 75% tests passed, 1 tests failed out of 4",
            "  rail_test.Rail.Opens: Failed    0.02 sec",
            "    rail_test.cc:12: Failure",
            "    the rail is open"])

    def test_FailedProgramOfManyTests_Counted_ShowsTheFailedOnesOnly(self):
        log = """\
1/1 Test #1: rail_test ...***Failed 0.02 sec
[ RUN      ] Rail.Opens
noise of a test that passes
[       OK ] Rail.Opens (0 ms)
[ RUN      ] Rail.Closes
rail_test.cc:12: Failure
[  FAILED  ] Rail.Closes (0 ms)
[ RUN      ] Rail.Hangs

0% tests passed, 1 tests failed out of 1
"""
        summary = _bash('count_tests preset /dev/fd/3; printf "%s\\n" "${summary[@]}"', text=log)
        self.assertNotIn("Rail.Opens", summary)
        self.assertNotIn("noise", summary)
        for line in ("rail_test.cc:12: Failure", "FAILED  ] Rail.Closes", "RUN      ] Rail.Hangs"):
            self.assertIn(line, summary)

    def test_TestThatPassesWhenItIsRunAgain_Counted_IsNamed(self):
        log = _CTEST_LOG.replace("75% tests passed, 1 tests", "100% tests passed, 0 tests").replace(
            " 4/4", "    Test  #3: rail_test.Rail.Opens .............   Passed    0.02 sec\n 4/4")
        with tempfile.NamedTemporaryFile("w", suffix=".log") as file:
            file.write(log)
            file.flush()
            summary = _bash('count_tests preset "$1"; printf "%s\\n" "${summary[@]}" "$failed"',
                            file.name)
        self.assertEqual(summary.splitlines(), [
            "preset: 100% tests passed, 0 tests failed out of 4",
            "  rail_test.Rail.Opens: Failed    0.02 sec; passed when it was run again",
            "    rail_test.cc:12: Failure",
            "    the rail is open",
            "0"])

    def test_ManyFailedTests_Counted_ShowTenAndTheNumberOfTheOthers(self):
        with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
            for number in range(1, 13):
                log.write(f"{number}/12 Test #{number}: a.{number} ...***Timeout   1.00 sec\n")
            log.write("0% tests passed, 12 tests failed out of 12\n")
            log.flush()
            summary = _bash('count_tests preset "$1"; printf "%s\\n" "${summary[@]}"', log.name)
        self.assertEqual(len(summary.splitlines()), 12)
        self.assertIn("  a.10: Timeout   1.00 sec\n  and 2 more\n", summary)

    def test_SeveralLogs_Counted_AreSummed(self):
        self.assertEqual(self.count(_CTEST_LOG, _CLEAN_LOG), "4 1 1 0")

    def test_LogWithoutTests_Counted_IsBroken(self):
        self.assertEqual(self.count("No tests were found!!!\n"), "0 0 0 1")


class PhasesTest(unittest.TestCase):

    def test_TestedPreset_Summary_HasTheSecondsToBuildAndToTest(self):
        with tempfile.TemporaryDirectory() as folder:
            summary = _bash('folder="$1"; build_dir() { printf %s "$folder"; }; '
                            "build() { SECONDS=1000; }; ctest() { :; }; "
                            "count_tests() { SECONDS=3000; }; "
                            'test_preset release; printf "%s\n" "${summary[@]}"', folder)
        # The clock of this test goes on by itself.
        self.assertRegex(summary, r"(?m)^release: (99\d|1000) s to build, (199\d|2000) s to test$")


class FilterTest(unittest.TestCase):

    def test_LinesOfSeveralRanks_Filtered_AppearOnceWithoutPrefix(self):
        text = ("vm:1:1 [0] NCCL INFO NET/GDR : rail 0\nvm:2:2 [0] NCCL INFO NET/GDR : rail 0\n"
                "vm:2:9 [1] NCCL WARN NET/GDR : x\n  8  2\n  8  2\n")
        self.assertEqual(_bash("once_per_rank_line <&3", text=text),
                         "NET/GDR : rail 0\nNET/GDR : x\n  8  2\n  8  2\n")


class CommandTest(unittest.TestCase):

    def run_it(self, *arguments):
        return subprocess.run([str(_RUN), *arguments], cwd="/", stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)

    def test_Help_FromAnotherFolder_ListsTheCommands(self):
        done = self.run_it("help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("test [PRESET", done.stdout)

    def test_UnknownCommand_Run_IsAUsageError(self):
        done = self.run_it("tset")
        self.assertEqual(done.returncode, 2)
        self.assertIn("usage:", done.stderr)

    @unittest.skipUnless(shutil.which("shellcheck"), "shellcheck is not installed")
    def test_Scripts_UnderShellcheck_AreClean(self):
        scripts = [_RUN, ROOT / ".ci" / "run", ROOT / "nccl-tests-config" / "one_host_rank"]
        done = subprocess.run(["shellcheck", "--severity=warning", *map(str, scripts)],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)


class FuzzTest(unittest.TestCase):

    def left(self, fuzzer, ci, *presets):
        return _bash(f"have_fuzzer() {{ {fuzzer}; }}; CI={ci}; presets=(\"$@\"); "
                     'leave_out_fuzzer; echo "${presets[*]}"; echo $broken', *presets).split("\n")[:2]

    def test_NoFuzzer_Test_LeavesThePresetOutAndFailsUnderCi(self):
        self.assertEqual(self.left("false", "", "release", "fuzz"), ["release", "0"])
        self.assertEqual(self.left("false", "true", "release", "fuzz"), ["release", "1"])

    def test_Fuzzer_Test_KeepsThePreset(self):
        self.assertEqual(self.left("true", "true", "release", "fuzz"), ["release fuzz", "0"])

    def test_NoFuzzerAndOtherPresets_Test_IsNoFailure(self):
        self.assertEqual(self.left("false", "true", "release", "tsan"), ["release tsan", "0"])

    def test_UnknownTarget_Fuzz_NamesThoseThatThereAre(self):
        done = subprocess.run([str(_RUN), "fuzz", "hullo"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("there is no target hullo; there are: arrivals", done.stderr)


class LintTest(unittest.TestCase):

    def lint(self, version):
        return _bash(
            "python3() { echo clean; }; shellcheck() { :; }; "
            f"clang-format() {{ [[ $1 == --version ]] && echo 'version {version}.0.6'; }}; "
            "CI=; if main lint; then echo passed; else echo failed; fi; echo $broken").split()[-2:]

    def test_FormattingOfTheTreesVersion_Lint_FailsButNoTestRun(self):
        self.assertEqual(self.lint(14), ["failed", "0"])

    def test_FormattingOfAnotherVersion_Lint_Passes(self):
        self.assertEqual(self.lint(15), ["passed", "0"])


if __name__ == "__main__":
    unittest.main()
