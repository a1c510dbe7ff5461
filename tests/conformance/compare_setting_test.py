"""nccl-tests-config/compare_setting over the plugin on the software HCA.

CTest sets NCCL_GDR_TOOL, TEST_PLUGIN and REFERENCE_PLUGIN, and puts the libraries into
LD_LIBRARY_PATH.
"""

import os
import pathlib
import re
import subprocess
import unittest

_SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "nccl-tests-config" / "compare_setting"


def run_script(*arguments, **settings):
    return subprocess.run([str(_SCRIPT), "--tool", os.environ["NCCL_GDR_TOOL"], *arguments],
                          env={**os.environ, **settings}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)


def compare(setting, *arguments, **settings):
    return run_script("--with", setting, "sendrecv", "--plugin", os.environ["TEST_PLUGIN"], "-n",
                      "20", *arguments, **settings)


def warnings_of(err):
    """The plugin of every rank warns of a value that it cannot use: the value's first letters."""
    return "".join(re.findall(r'NCCL_IB_QPS_PER_CONNECTION: "(.)', err))


class CompareSettingTest(unittest.TestCase):

    def assert_succeeded(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_Table_IsPrintedOnceWithTheDescriptionOfTheFirstRound(self):
        done = compare("NCCL_IB_QPS_PER_CONNECTION=2", "-e", "64", "-f", "8")
        self.assert_succeeded(done)
        self.assertTrue(done.stdout.startswith(
            "# first: unchanged; second: NCCL_IB_QPS_PER_CONNECTION=2\n# plugin GDR "), done.stdout)
        self.assertEqual(done.stdout.count("# plugin GDR "), 2, done.stdout)  # one for each side
        self.assertEqual(done.stdout.count("| bytes |"), 1, done.stdout)
        self.assertIn("# medians of 3 rounds of each; ratio: median of second / first in a round\n", done.stdout)
        self.assertRegex(done.stdout, r"\n\| +64 (\| +[0-9]+\.[0-9][0-9] ){6}\|\n# [0-9]+ messages "
                         r"verified: 0 wrong\n$")

    def test_Variable_IsSetForTheSecondSideInAlternatingOrder(self):
        done = compare("NCCL_IB_QPS_PER_CONNECTION=s", "-e", "8", "--test", "lat",
                       NCCL_DEBUG="WARN", NCCL_IB_QPS_PER_CONNECTION="f")
        self.assert_succeeded(done)
        self.assertIn("# first: unchanged, NCCL_IB_QPS_PER_CONNECTION=f; second: "
                      "NCCL_IB_QPS_PER_CONNECTION=s\n", done.stdout)
        self.assertEqual(warnings_of(done.stderr), "ffssssffffss", done.stderr)
        self.assertNotIn("MiB", done.stdout)

    def test_WrongData_IsCountedOverAllRoundsAndFails(self):
        done = run_script("--with", "REFERENCE_PLUGIN_DEFECT=corrupts_large", "--rounds", "2",
                          "sendrecv", "--plugin", os.environ["REFERENCE_PLUGIN"], "-b", "8M", "-e",
                          "8M", "--test", "bw", "-n", "2")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr, "")
        self.assertIn("\n| 8388608 ", done.stdout)
        self.assertRegex(done.stdout, r"# [0-9]+ messages verified: [1-9][0-9]* wrong\n$")

    def test_SideThatCannotRun_EndsWithItsReason(self):
        done = compare("NCCL_IB_DISABLE=1", "-e", "8")
        self.assertEqual(done.returncode, 3)
        self.assertIn("offers no device", done.stderr)
        self.assertNotIn("medians", done.stdout)

    def test_AllReduce_ComparesBusBandwidths(self):
        done = run_script("--with", "NCCL_IB_QPS_PER_CONNECTION=2", "--rounds", "1", "all_reduce",
                          "--plugin", os.environ["TEST_PLUGIN"], "--ranks", "2", "-e", "1K", "-f",
                          "16", "-n", "2")
        self.assert_succeeded(done)
        self.assertIn("out-of-place busbw: first", done.stdout)
        self.assertTrue(done.stdout.endswith("# 2 ranks, 2 sizes, 1 rounds of each side: 0 wrong\n"),
                        done.stdout)

    def test_UnsuitableOptions_AreUsageErrors(self):
        for words, reason in (
                (("--with", "A=1", "sendrecv", "--root", "h:1"), "leave out --root"),
                (("--with", "A=1", "sendrecv", "--json", "-"), "leave out --json"),
                (("--with", "A=1", "sendrecv", "--rounds", "0"), "at least 1"),
                (("--with", "NAME", "sendrecv"), '--with: "NAME" is not NAME=VALUE'),
                (("--with", "=1", "sendrecv"), "is not NAME=VALUE"), (("sendrecv",), "--with")):
            with self.subTest(words):
                done = run_script(*words)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(reason, done.stderr)


if __name__ == "__main__":
    unittest.main()
