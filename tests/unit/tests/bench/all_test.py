import contextlib
import io
import json
import pathlib
import re
import tempfile
import unittest
from unittest import mock

import paths
from arguments import Plugin
import figures
import parts
from bench_program import load
from figures import Figure, rounds
from parts import PARTS, Part, Setting

bench_all = load("all")


class AllTest(unittest.TestCase):
    """Runs fake parts: `programs` is {first word: what its program does with the file of --json}."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.plugin = self.folder / "plugin.so"
        self.plugin.touch()

    def run_all(self, programs, *words, status=0):
        """What it printed for parts that are named as their programs."""
        def run_program(command):
            return programs[command[0]](pathlib.Path(command[-1]))

        fakes = {name: Part(name, f"text of {name}", lambda setting, name=name: [[name]],
                            files=(() if program else ("absent",))) for name, program in programs.items()}
        output = io.StringIO()
        with mock.patch.object(bench_all, "PARTS", fakes), mock.patch("signal.signal"), \
                mock.patch.object(bench_all, "run_program", run_program), \
                contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            try:
                found = bench_all.main(["--build", str(self.folder), "--plugin", str(self.plugin), *words])
            except SystemExit as ended:
                found = ended.code
        self.assertEqual(found, status, output.getvalue())
        return output.getvalue()

    @staticmethod
    def writes(*found, status=0):
        def program(file):
            figures.write(file, "fake", found)
            return status, "the last line"
        return program

    _FAST = Figure("time", "us", {"own": [1.0] * 2, "peer": [2.0] * 2})
    _SLOW = Figure("rate", "", {"own": [1.0]}, target=rounds.Target(at_least=1.9))
    _COUNT = Figure("count", "", {"own": [2]}, exact=True, target=rounds.Target(at_most=1))

    def test_PartsThatRan_AreInOneTable(self):
        text = self.run_all({"one": self.writes(self._FAST), "two": self.writes()})
        for words in ("[1/2] one: text of one", "[2/2] two", "| one  | time |",
                      "2 of 2 parts ran, 0 targets missed"):
            self.assertIn(words, text)
        self.assertRegex(text, r"time \| us +\| +1 \| peer +\| +2 \| 0\.500 +\| better")

    def test_MissedTarget_IsNamed(self):
        """Also where the program itself exits with 1 for it."""
        for status in (0, 1):
            text = self.run_all({"one": self.writes(self._SLOW, status=status)}, status=1)
            self.assertIn("a target is MISSED: one: rate: 1.000 is not at least 1.9", text)
        text = self.run_all({"one": self.writes(self._SLOW)}, "--quick")
        self.assertIn("own >= 1.9: not judged |", text)
        self.assertIn("own <= 1: MISSED |",
                      self.run_all({"one": self.writes(self._COUNT)}, "--quick", status=1))

    def test_FailedPart_LosesNoOther(self):
        def absent(_):
            raise FileNotFoundError(2, "No such file", "program")

        for program, reason in ((lambda _: (1, "it broke"), "did NOT run: one: exit status 1: it broke"),
                                (self.writes(self._FAST, status=-11), "ran IN PART: one: exit status -11: the last"),
                                (absent, "did NOT run: one: exit status -1: [Errno 2]"),
                                (None, f"did NOT run: one: {self.folder}/absent does not exist")):
            text = self.run_all({"one": program, "two": self.writes(self._FAST)}, status=1)
            self.assertIn(reason, text)
            self.assertIn("1 of 2 parts ran", text)
            self.assertRegex(text, r"time \| us +\| +1 \| peer")

    def test_Interrupt_KeepsWhatRanAndNamesTheRest(self):
        def interrupted(_):
            raise KeyboardInterrupt

        text = self.run_all({"one": self.writes(self._FAST), "two": interrupted, "three": None},
                            status=130)
        for words in ("did NOT run: two: interrupted", "did NOT run: three: interrupted",
                      "1 of 3 parts ran"):
            self.assertIn(words, text)

    def test_OnlyAndList_ChooseParts(self):
        self.assertIn("1 of 1 parts ran",
                      self.run_all({"one": None, "two": self.writes()}, "--only", "two"))
        self.assertRegex(self.run_all({"one": self.writes(), "two": None}, "--list"),
                         r"^one +text of one\ntwo +text of two\n +CANNOT run here: .*absent")

    def test_Json_HasFiguresAndFailures(self):
        file = self.folder / "all.json"
        self.run_all({"one": self.writes(self._FAST), "two": lambda _: (1, "it broke")}, "--json",
                     str(file), status=1)
        record = json.loads(file.read_text())
        self.assertEqual(record["parts"]["one"][0]["samples"], self._FAST.samples)
        self.assertEqual(record["failures"], {"two": "exit status 1: it broke"})

    def test_UnusableOptions_AreRefused(self):
        self.assertIn("invalid choice: 'three'",
                      self.run_all({"one": self.writes()}, "--only", "three", status=2))

    def test_Program_ShowsItsLinesAndReturnsTheLast(self):
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            self.assertEqual(bench_all.run_program(["sh", "-c", "echo one; echo two >&2; exit 3"]),
                             (3, "two"))
        self.assertEqual(shown.getvalue(), "    one\n    two\n")


class PartsTest(unittest.TestCase):
    _PEER = Plugin("peer", pathlib.Path("/peer.so"), "8")

    def setting(self, *peers, quick=False):
        return Setting(pathlib.Path("/build"), Plugin("own", pathlib.Path("/own.so")), list(peers),
                       quick)

    def test_Options_AreThoseOfThePrograms(self):
        """Every program reads the words of its part up to the files, which are not there."""
        for part in PARTS.values():
            for quick in (False, True):
                for words in part.runs(self.setting(self._PEER, quick=quick)):
                    errors = io.StringIO()
                    with self.subTest(words), mock.patch("sys.argv", [*words, "--json", "/a.json"]):
                        with contextlib.redirect_stderr(errors), contextlib.suppress(SystemExit):
                            load(pathlib.Path(words[0]).name).parse_options()
                        self.assertNotRegex(errors.getvalue(),
                                            "unrecognized|invalid|expected|required")

    def test_PeersAreMeasuredWhereThePartHasThem(self):
        for name, part in PARTS.items():
            with_peer = str(part.runs(self.setting(self._PEER)))
            self.assertEqual("peer=/peer.so:8" in with_peer, "alone" not in part.text, name)
            self.assertNotIn("peer.so", str(part.runs(self.setting())))
            self.assertIn("/build/", part.missing(self.setting()))

    def test_MemoryTarget_IsThatOfTheTest(self):
        text = (paths.ROOT / "tests" / "bench" / "CMakeLists.txt").read_text()
        self.assertEqual(re.findall(r"--polls 1000 --at-most (\d+) --enforce", text),
                         [str(parts.RESIDENT_KIB)])


if __name__ == "__main__":
    unittest.main()
