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

    def test_Results_AreHeldAgainstTheList(self):
        for results, expected, findings, notes in (
                ([["a", "passed", ""], ["b", "skipped", "no UD"]], {"a"}, [], []),
                ([["a", "error", "trace 1"], ["b", "failure", "trace 2"]], {"b"},
                 ["error: a\ntrace 1", "failure: b\ntrace 2"], []),
                ([["a", "skipped", "no AH"]], {"a"}, ["expected to pass, but skipped: a: no AH"], []),
                ([["a", "passed", ""]], {"a", "z"}, [], ["not in this version of rdma-core: z"]),
                ([["a", "passed", ""]], set(), [], ["passes, but is not in the list: a"])):
            with self.subTest(results):
                self.assertEqual(pyverbs_suite.judge(results, expected), (findings, notes))
        self.assertEqual(pyverbs_suite.judge([], {"a"})[0], ["no test ran"])


class Apt:
    """In place of dpkg-query and apt-get: what is installed, and which versions apt has."""

    def __init__(self, installed, offered):
        self.installed, self.offered, self.asked = installed, offered, []

    def __call__(self, *command, folder=None):
        if command[0] == "dpkg-query":
            return subprocess.CompletedProcess(command, 0 if self.installed else 1, self.installed,
                                               "")
        self.asked.append(command[-1])
        code, text = (0, "") if command[-1] in self.offered else (100, "not found")
        return subprocess.CompletedProcess(command, code, "", text)


class DownloadTest(unittest.TestCase):

    def test_InstalledVersion_IsDownloadedElseTheNewest(self):
        newest, own = "python3-pyverbs", "python3-pyverbs=44.0-2"
        for installed, offered, asked, printed in (("installed 44.0-2", [newest, own], [
                own], ""), ("installed 44.0-2", [newest], [own, newest],
                            "44.0-2 is installed, but cannot be downloaded: not found"),
                                                   ("", [newest], [newest], ""),
                                                   ("config-files 44.0-2", [newest], [newest], "")):
            with self.subTest(installed, offered=offered):
                apt = Apt(installed, offered)
                with contextlib.redirect_stdout(io.StringIO()) as output:
                    pyverbs_suite.download(".", pyverbs_suite.installed_version(apt), apt)
                self.assertEqual(apt.asked, asked)
                self.assertIn(printed, output.getvalue())
                self.assertEqual("Fix: apt-get update" in output.getvalue(), bool(printed))
        with self.assertRaisesRegex(SystemExit,
                                    "apt-get download python3-pyverbs failed: not found"):
            pyverbs_suite.download(".", None, Apt("", []))


class FilesTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pyverbs test ")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_List_HasTheIdsOfTheLinkLayer(self):
        file = self.folder / "expected.txt"
        file.write_text("# A comment.\na\nb Ethernet\nc InfiniBand  # why\n\n")
        self.assertEqual(pyverbs_suite.read_expected(file, "Ethernet"), {"a", "b"})
        self.assertEqual(pyverbs_suite.read_expected(file, "InfiniBand"), {"a", "c"})

    def test_Suite_IsFoundBelowTheFolderOfThePackageAndUnpacked(self):
        suite, unpacked = self.folder / pyverbs_suite.SUITE, self.folder / "tests"
        suite.mkdir(parents=True)
        self.assertIsNone(pyverbs_suite.find_suite([self.folder]))
        (suite / "test_cq.py.gz").write_bytes(gzip.compress(b"two"))
        self.assertEqual(pyverbs_suite.find_suite([self.folder]), suite)
        (suite / "__init__.py").write_text("one")
        (suite / "README").write_text("three")
        pyverbs_suite.unpack(suite, unpacked)
        self.assertEqual({file.name: file.read_text() for file in unpacked.iterdir()},
                         {"__init__.py": "one", "test_cq.py": "two"})


if __name__ == "__main__":
    unittest.main()
