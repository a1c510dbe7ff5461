import contextlib
import gzip
import io
import pathlib
import subprocess
import tempfile
import unittest

import paths  # noqa: F401  (sets the module path)
import pyverbs_suite


class JudgeTest(unittest.TestCase):

    def findings(self, results, expected=()):
        return pyverbs_suite.judge(results, set(expected))[0]

    def notes(self, results, expected=()):
        return pyverbs_suite.judge(results, set(expected))[1]

    def test_ExpectedPasses_Judged_AreFine(self):
        results = [["a", "passed", ""], ["b", "skipped", "no UD"]]
        self.assertEqual(pyverbs_suite.judge(results, {"a"}), ([], []))

    def test_ErrorOrFailure_Judged_IsFoundWhetherExpectedOrNot(self):
        results = [["a", "error", "trace 1"], ["b", "failure", "trace 2"]]
        self.assertEqual(self.findings(results, ["b"]), ["error: a\ntrace 1", "failure: b\ntrace 2"])

    def test_ExpectedButSkipped_Judged_IsFoundWithTheReason(self):
        self.assertEqual(self.findings([["a", "skipped", "no AH"]], ["a"]),
                         ["expected to pass, but skipped: a: no AH"])

    def test_AbsentTest_Judged_IsANote(self):
        results = [["a", "passed", ""]]
        self.assertEqual(self.findings(results, ["a", "z"]), [])
        self.assertEqual(self.notes(results, ["a", "z"]), ["not in this version of rdma-core: z"])

    def test_PassThatIsNotListed_Judged_IsANote(self):
        self.assertEqual(self.notes([["a", "passed", ""]]), ["passes, but is not in the list: a"])

    def test_NoResult_Judged_IsFound(self):
        self.assertEqual(self.findings([], ["a"]), ["no test ran"])


class Apt:
    """In place of dpkg-query and apt-get: what is installed, and which versions apt has."""

    def __init__(self, installed, offered):
        self.installed, self.offered, self.asked = installed, offered, []

    def __call__(self, *command, folder=None):
        if command[0] == "dpkg-query":
            return subprocess.CompletedProcess(command, 0 if self.installed else 1, self.installed, "")
        self.asked.append(command[-1])
        code, text = (0, "") if command[-1] in self.offered else (100, "not found")
        return subprocess.CompletedProcess(command, code, "", text)


class DownloadTest(unittest.TestCase):

    def download(self, apt):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            pyverbs_suite.download(".", pyverbs_suite.installed_version(apt), apt)
        return printed.getvalue()

    def test_InstalledVersion_Downloaded_IsTheOnlyOne(self):
        apt = Apt("installed 44.0-2", ["python3-pyverbs", "python3-pyverbs=44.0-2"])
        self.assertEqual(self.download(apt), "")
        self.assertEqual(apt.asked, ["python3-pyverbs=44.0-2"])

    def test_VersionThatAptLacks_Downloaded_IsTheNewestWithAMessage(self):
        apt = Apt("installed 44.0-2", ["python3-pyverbs"])
        printed = self.download(apt)
        self.assertIn("44.0-2 is installed, but cannot be downloaded: not found", printed)
        self.assertIn("Fix: apt-get update", printed)
        self.assertEqual(apt.asked, ["python3-pyverbs=44.0-2", "python3-pyverbs"])

    def test_NotInstalled_Downloaded_IsTheNewest(self):
        for installed in ("", "config-files 44.0-2"):
            apt = Apt(installed, ["python3-pyverbs"])
            self.assertEqual(self.download(apt), "")
            self.assertEqual(apt.asked, ["python3-pyverbs"])

    def test_AptHasNone_Downloaded_EndsTheProgram(self):
        with self.assertRaises(SystemExit) as ended:
            self.download(Apt("", []))
        self.assertIn("apt-get download python3-pyverbs failed: not found", str(ended.exception))


class FilesTest(unittest.TestCase):

    def test_List_Read_HasTheIdsOfTheLinkLayer(self):
        with tempfile.TemporaryDirectory(prefix="pyverbs test ") as folder:
            file = pathlib.Path(folder) / "expected.txt"
            file.write_text("# A comment.\na\nb Ethernet\nc InfiniBand  # why\n\n")
            self.assertEqual(pyverbs_suite.read_expected(file, "Ethernet"), {"a", "b"})
            self.assertEqual(pyverbs_suite.read_expected(file, "InfiniBand"), {"a", "c"})

    def test_Suite_Unpacked_IsPlainPython(self):
        with tempfile.TemporaryDirectory(prefix="pyverbs test ") as folder:
            suite, unpacked = pathlib.Path(folder) / "suite", pathlib.Path(folder) / "tests"
            suite.mkdir()
            (suite / "__init__.py").write_text("one")
            (suite / "base.py.gz").write_bytes(gzip.compress(b"two"))
            (suite / "README").write_text("three")
            pyverbs_suite.unpack(suite, unpacked)
            self.assertEqual({file.name: file.read_text() for file in unpacked.iterdir()},
                             {"__init__.py": "one", "base.py": "two"})

    def test_Suite_LookedFor_IsFoundBelowTheFolderOfThePackage(self):
        with tempfile.TemporaryDirectory(prefix="pyverbs test ") as folder:
            suite = pathlib.Path(folder) / pyverbs_suite.SUITE
            suite.mkdir(parents=True)
            self.assertIsNone(pyverbs_suite.find_suite([folder]))
            (suite / "test_cq.py.gz").write_bytes(b"")
            self.assertEqual(pyverbs_suite.find_suite([folder]), suite)
