import pathlib
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

    def summary(self, *logs):
        """The lines of the summary for these logs, and the counts of tests behind them."""
        with tempfile.TemporaryDirectory(prefix="run test ") as folder:
            names = [str(pathlib.Path(folder) / f"{number}.log") for number in range(len(logs))]
            for name, log in zip(names, logs):
                pathlib.Path(name).write_text(log)
            lines = _bash('for log in "$@"; do count_tests preset "$log"; done; '
                          'printf "%s\\n" "${summary[@]}" "$passed $failed $skipped $broken"',
                          *names).splitlines()
            return lines[:-1], lines[-1]

    def test_Logs_AreSummedWithSkippedApart(self):
        for logs, counts in (([_CTEST_LOG], "2 1 1 0"), ([_CTEST_LOG, _CLEAN_LOG], "4 1 1 0"),
                             (["No tests were found!!!\n"], "0 0 0 1")):
            self.assertEqual(self.summary(*logs)[1], counts)

    def test_FailedTry_IsNamed(self):
        again = _CTEST_LOG.replace("75% tests passed, 1 tests", "100% tests passed, 0 tests").replace(
            " 4/4", "    Test  #3: rail_test.Rail.Opens .............   Passed    0.02 sec\n 4/4")
        failed = _CTEST_LOG.replace(
            " 4/4", "    Test  #3: rail_test.Rail.Opens .............***Failed    0.03 sec\n 4/4")
        for log, times, counts in ((again, ["0.02"], "3 0 1 0"), (failed, ["0.02", "0.03"], "2 1 1 0")):
            lines, sums = self.summary(log)
            self.assertEqual(lines[1:-1], [f"  rail_test.Rail.Opens: Failed    {time} sec" for time in times])
            self.assertIn(" is in /", lines[-1])
            self.assertEqual(sums, counts)
        self.assertEqual(len(self.summary(_CLEAN_LOG)[0]), 1)


class CommandTest(unittest.TestCase):

    def run_it(self, *arguments):
        return subprocess.run([str(_RUN), *arguments], cwd="/", stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)

    def test_Words_AreCheckedFromAnotherFolderBeforeAnythingIsInstalled(self):
        for words, status, text in ((("help",), 0, "test [PRESET"), (("tset",), 2, "usage:"),
                                    (("fuzz", "hullo"), 1, "there is no target hullo; there are: arrivals"),
                                    (("fuzz", "hello", "long"), 1, "fuzz takes [TARGET] [SECONDS], not long"),
                                    (("fuzz", "5", "6"), 1, "not 5 6"), (("demo", "4"), 1, "demo takes no words"),
                                    (("quick", "x"), 1, "got: x"), (("lint", "x"), 1, "got: x"),
                                    (("build", "tsna"), 1, "there is no preset tsna; there are: release dev asan-ubsan tsan"),
                                    (("build", "dev", "tsan"), 1, "not dev and tsan"), (("build", "--all"), 1, "no option --all"),
                                    (("test", "release", "--fast"), 1, "there is no preset --fast"), (("test", "base"), 1, "base"),
                                    (("package", "--dbe"), 1, "unknown option --dbe"), (("package", "a", "b"), 1, "not a and b")):
            done = self.run_it(*words)
            self.assertNotIn("packages:", done.stdout)
            self.assertEqual(done.returncode, status)
            self.assertIn(text, done.stdout + done.stderr)


class ConfigureTest(unittest.TestCase):

    def options(self, runtime, preset, compiler, home="$PWD"):
        """What a build folder that `compiler` has configured in `home` is configured with."""
        with tempfile.TemporaryDirectory(prefix="run test ") as folder:
            return _bash(
                f'have_clang_runtime() {{ {runtime}; }}; cd "$1"; root="$1"; dir="$(build_dir {preset})"; '
                f'mkdir "$dir"; printf "%s\n" "CMAKE_HOME_DIRECTORY:INTERNAL={home}" '
                f'CMAKE_CXX_COMPILER:STRING={compiler} >"$dir/CMakeCache.txt"; '
                f"configure_options {preset} 2>&1", folder).splitlines()

    def test_BuildFolder_OfAnotherCompilerOrPathIsConfiguredAfresh(self):
        for runtime, preset, compiler, options in (
                ("true", "tsan", "clang++", []), ("true", "tsan", "/usr/bin/clang++", []),
                ("true", "asan-ubsan", "/usr/bin/g++", ["--fresh"]),
                ("true", "tsan", "/usr/bin/c++", ["--fresh"]),
                ("false", "release", "/usr/bin/c++", []), ("true", "fuzz", "clang++", [])):
            self.assertEqual(self.options(runtime, preset, compiler), options)
        self.assertEqual(self.options("true", "release", "g++", "/elsewhere"), ["--fresh"])

    def test_SanitizersWithoutClang_AreBuiltByGccAndThatIsReported(self):
        for compiler, fresh in (("g++", []), ("/usr/bin/clang++", ["--fresh"])):
            report, *options = self.options("false", "asan-ubsan", compiler)
            self.assertIn("g++ builds asan-ubsan", report)
            self.assertEqual(options, ["-DCMAKE_C_COMPILER=gcc", "-DCMAKE_CXX_COMPILER=g++"] + fresh)


class BuildTest(unittest.TestCase):

    def built(self, tests, *words):
        """What `./run build` sets up and builds, and the options of cmake, in a folder whose tests are `tests`."""
        with tempfile.TemporaryDirectory(prefix="run test ") as folder:
            return _bash(
                'cd "$1"; shift; mkdir build build-tsan; tee build-tsan/CMakeCache.txt >build/CMakeCache.txt '
                f'<<<GDR_BUILD_TESTS:BOOL={tests}; setup() {{ echo "setup $*"; }}; configure_options() {{ :; }}; '
                'cmake() { echo "cmake $*" | grep -oE "(--preset|--target) [a-z_-]+|-DGDR[A-Z=_]*" || true; }; '
                'step() { :; }; main build "$@"', folder, *words).split("\n")[:-1]

    def test_Products_AreBuiltWithoutTestsUnlessAskedOrThere(self):
        for tests, words, printed in (
                ("OFF", [], ["setup ", "--preset release", "-DGDR_BUILD_TESTS=OFF", "--target gdr_products"]),
                ("ON", [], ["setup ", "--preset release", "--target gdr_products"]),
                ("OFF", ["--tests"], ["setup release", "--preset release"]),
                ("OFF", ["tsan", "--tests"], ["setup tsan", "--preset tsan"])):
            self.assertEqual(self.built(tests, *words), printed, words)


class LintTest(unittest.TestCase):

    def lint(self, version):
        return _bash(
            "python3() { echo clean; }; shellcheck() { :; }; "
            f"clang-format() {{ [[ $1 == --version ]] && echo 'version {version}.0.6'; }}; "
            "CI=; if main lint; then echo passed; else echo failed; fi; echo $broken").split()[-2:]

    def test_Formatting_FailsInTheTreesVersionOnlyAndNoTestRun(self):
        self.assertEqual(self.lint(14), ["failed", "0"])
        self.assertEqual(self.lint(15), ["passed", "0"])


if __name__ == "__main__":
    unittest.main()
