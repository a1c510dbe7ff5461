import contextlib
import io
import json
import pathlib
import re
import tempfile
import unittest
from unittest import mock

import paths
import figures
import parts
from bench_program import load
from figures import Figure, rounds
from parts import PARTS, Part, Setting
from plugin_argument import Plugin

bench_all = load("all")


class AllTest(unittest.TestCase):
    """Runs fake parts: `programs` is {first word: what its program does with the file of --json}."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.plugin = self.folder / "plugin.so"
        self.plugin.touch()

    def run_all(self, programs, words=(), missing=None, load=0.0):
        """The exit status of parts that are named as their programs; `missing` has their reasons."""
        def run_program(command, output):
            self.assertEqual(command[-2], "--json")
            output.write(f"output of {command[0]}\n")
            self.calls.append(command[:-2])
            return programs[command[0]](pathlib.Path(command[-1]))

        fakes = {name: Part(name, f"text of {name}",
                            lambda setting, name=name: [[name, *(peer.name for peer in setting.peers)]],
                            lambda setting, name=name: (missing or {}).get(name)) for name in programs}
        self.output, self.calls = io.StringIO(), []
        with mock.patch.object(bench_all, "PARTS", fakes), mock.patch.object(bench_all, "run_program", run_program), \
                mock.patch("os.getloadavg", lambda: (load, load, load)), mock.patch("signal.signal"):
            with contextlib.redirect_stdout(self.output), contextlib.redirect_stderr(self.output):
                return bench_all.main(["--build", str(self.folder), "--plugin", str(self.plugin), *words])

    @staticmethod
    def writes(*found, status=0):
        def program(file):
            figures.write(file, "fake", found)
            return status, "the last line"
        return program

    _FAST = Figure("time", "us", {"own": [1.0] * 6, "peer": [2.0] * 6})
    _SLOW = Figure("rate", "", {"own": [1.0]}, target=rounds.Target(at_least=1.9))
    _LARGE = Figure("memory", "KiB", {"own": [200]}, steady=True, target=rounds.Target(at_most=188.0))

    def test_AllPartsThatRan_AreZero(self):
        self.assertEqual(self.run_all({"one": self.writes(self._FAST), "two": self.writes()}), 0)
        text = self.output.getvalue()
        for words in ("[1/2] one: text of one", "[2/2] two", "one:\n  time", "2 of 2 parts ran, 0 in part, 0 not"):
            self.assertIn(words, text)
        self.assertRegex(text, r"time +us +1 +peer +2 +0\.500 +better\n")

    def test_MissedTarget_IsOneAndNamed(self):
        """Also where the program itself exits with 1 for it."""
        for status in (0, 1):
            self.assertEqual(self.run_all({"one": self.writes(self._SLOW, status=status)}), 1)
            self.assertIn("a target is MISSED: one: rate: 1.000 is not at least 1.9", self.output.getvalue())
            self.assertIn("1 of 1 parts ran, 0 in part, 0 not; 1 targets, 1 missed, 0 not judged",
                          self.output.getvalue())

    def test_QuickRunAndBusyMachine_MissNoTargetOfATime(self):
        for words, load, why in ((["--quick"], 0.0, "QUICK run"), ([], 10000.0, "machine was BUSY")):
            self.assertEqual(self.run_all({"one": self.writes(self._SLOW)}, words, load=load), 0)
            text = self.output.getvalue()
            self.assertLess(text.index(why), text.index("what"))
            self.assertIn("own >= 1.9: not judged\n", text)
            self.assertIn("1 targets, 0 missed, 1 not judged", text)
            self.assertEqual(self.run_all({"one": self.writes(self._SLOW, self._LARGE)}, words, load=load), 1)
            self.assertIn("own <= 188: MISSED\n", self.output.getvalue())
            self.assertIn("2 targets, 1 missed, 1 not judged", self.output.getvalue())

    def test_FailedPart_IsFourAndLosesNoOther(self):
        programs = {"one": lambda file: (1, "it broke"), "two": self.writes(self._FAST)}
        self.assertEqual(self.run_all(programs), 4)
        self.assertIn("did NOT run: one: it broke", self.output.getvalue())
        self.assertIn("1 of 2 parts ran, 0 in part, 1 not", self.output.getvalue())
        self.assertRegex(self.output.getvalue(), r"time +us +1 +peer")

    def test_ProgramWithoutFigures_DidNotRun(self):
        self.assertEqual(self.run_all({"one": lambda file: (0, "fine")}), 4)
        self.assertIn("one-1.json has no figures", self.output.getvalue())

    def test_CrashAfterTheFigures_DidNotRunButKeepsThem(self):
        self.assertEqual(self.run_all({"one": self.writes(self._FAST, status=-11)}), 4)
        self.assertIn("ran IN PART: one: exit status -11: the last line", self.output.getvalue())
        self.assertRegex(self.output.getvalue(), r"time +us +1 +peer")

    def test_ProgramThatCannotBeStarted_LosesNoOther(self):
        def absent(file):
            raise FileNotFoundError(2, "No such file", "program")

        self.assertEqual(self.run_all({"one": absent, "two": self.writes(self._SLOW)}), 5)
        self.assertIn("did NOT run: one: [Errno 2]", self.output.getvalue())

    def test_PeerThatEndsAPart_DoesNotLoseTheOwnFigures(self):
        def program(file):
            return (1, "the peer broke") if len(self.calls) == 1 else self.writes(self._SLOW)(file)

        self.assertEqual(self.run_all({"one": program}, ["--peer", f"peer={self.plugin}"]), 5)
        self.assertEqual(self.calls, [["one", "peer"], ["one"]])
        self.assertIn("ran IN PART: one: with peers: the peer broke\n", self.output.getvalue())
        self.assertRegex(self.output.getvalue(), r"rate +1 +- ")

    def test_BusyMachine_IsNamed(self):
        for load, named in ((0.0, False), (10000.0, True)):
            self.run_all({"one": self.writes()}, load=load)
            self.assertEqual("machine was BUSY" in self.output.getvalue(), named)
            self.assertNotIn("QUICK", self.output.getvalue())

    def test_PartThatCannotRunHere_IsNamedAndCounted(self):
        self.assertEqual(self.run_all({"one": None, "two": self.writes()}, missing={"one": "no QEMU"}), 4)
        self.assertIn("did NOT run: one: no QEMU", self.output.getvalue())

    def test_Interrupt_KeepsWhatRanAndNamesTheRest(self):
        def interrupted(file):
            raise KeyboardInterrupt

        programs = {"one": self.writes(self._FAST), "two": interrupted, "three": None}
        self.assertEqual(self.run_all(programs), 130)
        for words in ("did NOT run: two: interrupted", "did NOT run: three: interrupted", "1 of 3 parts ran"):
            self.assertIn(words, self.output.getvalue())

    def test_Only_RunsNoOther(self):
        self.assertEqual(self.run_all({"one": None, "two": self.writes()}, ["--only", "two"]), 0)
        self.assertIn("1 of 1 parts ran", self.output.getvalue())

    def test_List_RunsNothing(self):
        self.assertEqual(self.run_all({"one": None, "two": None}, ["--list"], missing={"two": "no QEMU"}), 0)
        self.assertRegex(self.output.getvalue(), r"one +text of one\ntwo +text of two\n +CANNOT run here: no QEMU\n")

    def test_Keep_HasTheOutputAndTheFigures(self):
        kept = self.folder / "new" / "kept"
        kept.mkdir(parents=True)
        stale = kept / "two-1.json"
        figures.write(stale, "another run", [self._FAST])
        programs = {"one": self.writes(self._FAST), "two": lambda file: (1, "it broke")}
        self.assertEqual(self.run_all(programs, ["--keep", str(kept)]), 4)
        self.assertRegex((kept / "one.txt").read_text(), r"\$ one --json .*one-1.json\noutput of one\n")
        self.assertEqual(figures.read(kept / "one-1.json"), [self._FAST])
        self.assertFalse(stale.exists())

    def test_Json_HasPartsRowsAndMissedTargets(self):
        file = self.folder / "all.json"
        programs = {"one": self.writes(self._FAST, self._SLOW), "two": lambda file: (1, "it broke")}
        self.assertEqual(self.run_all(programs, ["--json", str(file)]), 5)
        record = json.loads(file.read_text())
        self.assertEqual([(part["name"], part["ran"], part["reason"]) for part in record["parts"]],
                         [("one", True, None), ("two", False, "it broke")])
        self.assertEqual([(row["what"], row["verdict"]) for row in record["rows"]],
                         [("time", "better"), ("rate", None)])
        self.assertEqual(record["missed"], ["one: rate: 1.000 is not at least 1.9"])
        self.assertIsNone(record["times_not_judged"])
        self.assertEqual(record["plugins"], {"own": {"file": str(self.plugin.resolve()), "table": "newest"}})

    def test_JsonToMinus_IsTheEndOfTheStandardOutput(self):
        self.assertEqual(self.run_all({"one": self.writes(self._FAST)}, ["--json", "-"]), 0)
        text = self.output.getvalue()
        self.assertEqual(json.loads(text[text.index("\n{\n"):])["rows"][0]["what"], "time")

    def test_UnusableOptions_AreRefusedBeforeAnyPart(self):
        peer = f"a={self.plugin}"
        for words, text in ((["--peer", "a=/absent.so"], "/absent.so does not exist"),
                            (["--peer", f"a={self.folder}"], f"{self.folder} is no file"),
                            (["--peer", peer, "--peer", f"b={self.plugin}", "--peer", f"{peer}:8"],
                             f"--peer a={self.plugin}:newest and --peer a={self.plugin}:8 have one name"),
                            (["--only", "three"], "invalid choice: 'three'"),
                            (["--json", "/absent/a.json"], "/absent/a.json cannot be written: No such file"),
                            (["--json", str(self.folder)], "cannot be written: Is a directory"),
                            (["--keep", f"{self.plugin}/a"], "Not a directory")):
            with self.subTest(words=words), self.assertRaises(SystemExit) as ended:
                self.run_all({"one": None}, words)
            self.assertEqual(ended.exception.code, 2)
            self.assertIn(text, self.output.getvalue())


class LoadTest(unittest.TestCase):
    """Over fakes of the driver, which print what the real one does; tests/softhca/bench_all_test.py has that one."""

    def why(self, script):
        with tempfile.TemporaryDirectory() as name:
            build = pathlib.Path(name)
            (build / "softhca").mkdir()
            (build / "softhca" / "libibverbs.so.1").touch()
            if script is not None:
                (build / "bin").mkdir()
                (build / "bin" / "connections_driver").write_text(f"#!/bin/sh\n{script}\n")
                (build / "bin" / "connections_driver").chmod(0o755)
            return bench_all.why_not_loaded(build, Plugin("peer", pathlib.Path("/peer.so"), "8"))

    def test_PluginThatCannotBeLoaded_HasTheReason(self):
        self.assertEqual(self.why("""printf 'connections_driver: cannot load the plugin "/p.so":\\n  /p.so: bad\\n' >&2
                                  exit 1"""), 'cannot load the plugin "/p.so": /p.so: bad')

    def test_MissingTable_IsTheReason(self):
        self.assertEqual(self.why('echo "driver: $1 exports no ncclNetPlugin_v$4; it has 6" >&2; exit 1'),
                         "/peer.so exports no ncclNetPlugin_v8; it has 6")

    def test_WhatElseFails_IsLeftToTheParts(self):
        for script in ("exit 0", "echo 'driver: no connection' >&2; exit 1", None):
            self.assertIsNone(self.why(script))


class RunProgramTest(unittest.TestCase):
    def test_LinesAreShownAndWritten(self):
        written, shown = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(shown):
            found = bench_all.run_program(["sh", "-c", "echo one; echo two >&2; exit 3"], written)
        self.assertEqual(found, (3, "two"))
        self.assertEqual(written.getvalue(), "one\ntwo\n")
        self.assertEqual(shown.getvalue(), "    one\n    two\n")


class PartsTest(unittest.TestCase):
    _PEER = Plugin("peer", pathlib.Path("/peer.so"), "8")
    _OWN = Plugin("own", pathlib.Path("/build/lib/libnccl-net-gdr.so"))

    def setting(self, *peers, quick=False, own=_OWN):
        return Setting(pathlib.Path("/build"), own, list(peers), quick)

    def test_Options_AreThoseOfThePrograms(self):
        """Every program reads the words of its part up to the files, which are not there."""
        for name, part in PARTS.items():
            for quick in (False, True):
                for words in part.runs(self.setting(self._PEER, quick=quick)):
                    errors = io.StringIO()
                    program = pathlib.Path(words[0])
                    with self.subTest(part=name, quick=quick), mock.patch("sys.argv", [*words, "--json", "/a.json"]):
                        with contextlib.redirect_stderr(errors), contextlib.suppress(SystemExit):
                            load(program.name).parse_options()
                        self.assertNotRegex(errors.getvalue(),
                                            "unrecognized|invalid|expected|required|does not exist, and")

    def test_PeersAreMeasuredWhereThePartHasThem(self):
        for name, part in PARTS.items():
            with_peer = str(part.runs(self.setting(self._PEER)))
            self.assertEqual("peer=/peer.so:8" in with_peer, "own plugin alone" not in part.text, name)
            self.assertNotIn("peer.so", str(part.runs(self.setting())))

    def test_MemoryTarget_IsThatOfTheTest(self):
        text = (paths.ROOT / "tests" / "bench" / "CMakeLists.txt").read_text()
        self.assertEqual(re.findall(r"--no-instructions --at-most (\d+)\)", text), [str(parts.RESIDENT_KIB)])

    def test_MissingFile_IsTheReason(self):
        for name, part in PARTS.items():
            self.assertIn("/build/", part.missing(self.setting()), name)

    def test_OwnCodeOfAnotherBuild_IsNotMeasuredByRails(self):
        other = Plugin("own", pathlib.Path("/other.so"))
        self.assertIn("not /other.so", parts.PARTS["softhca-rails"].missing(self.setting(own=other)))


if __name__ == "__main__":
    unittest.main()
