import gzip
import pathlib
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
