"""nccl-tests-config/compare_setting over the plugin on the software HCA, with the fake CUDA driver.

CTest sets NCCL_GDR_TOOL, TEST_PLUGIN and REFERENCE_PLUGIN, and puts both libraries into
LD_LIBRARY_PATH.
"""

import json
import os
import pathlib
import re
import subprocess
import tempfile
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

    def test_Staging_RunsTheSecondSideThroughHostMemory(self):
        done = compare("staging", "--memory", "cuda", "-b", "0", "-e", "1M", "-f", "16", "--rounds",
                       "2", "--json", "-")
        self.assert_succeeded(done)
        report = json.loads(done.stdout)
        self.assertEqual(report["wrong"], 0)
        self.assertIsNone(report["compare"]["first"]["GDR_NCCL_GPU_MEMORY"])
        self.assertEqual(report["compare"]["second"]["GDR_NCCL_GPU_MEMORY"], "staging")
        self.assertEqual(len(report["rounds"]), 2)
        verified = 0
        for one in report["rounds"]:
            self.assertEqual(one["first"]["ranks"][0]["registered_by"], "dma-buf")
            self.assertEqual(one["second"]["ranks"][0]["registered_by"], "device address")
            for side in ("first", "second"):
                self.assertEqual(len(one[side]["bandwidth"]), 7)
                verified += one[side]["verified"]
        self.assertEqual(report["verified"], verified)
        self.assertEqual(len(report["medians"]), 7)
        largest = report["medians"][6]
        self.assertEqual(largest["bytes"], 1 << 20)
        self.assertGreater(largest["average_mib_s"]["ratio"], 0)
        self.assertGreater(largest["typical_us"]["ratio"], 0)

    def test_Table_IsPrintedOnceWithTheDescriptionOfTheFirstRound(self):
        done = compare("NCCL_IB_QPS_PER_CONNECTION=2", "-e", "64", "-f", "8")
        self.assert_succeeded(done)
        self.assertTrue(done.stdout.startswith(
            "# first: unchanged; second: NCCL_IB_QPS_PER_CONNECTION=2\n# plugin GDR "), done.stdout)
        self.assertEqual(done.stdout.count("# plugin GDR "), 2, done.stdout)  # one for each side
        self.assertEqual(done.stdout.count("#bytes"), 1, done.stdout)
        self.assertIn("# medians of 3 rounds of each; ratio: median of second / first in a round\n", done.stdout)
        self.assertRegex(done.stdout, r"\n 64 ( +[0-9]+\.[0-9][0-9]){6}\n# [0-9]+ messages "
                         r"verified: 0 wrong\n$")

    def test_Variable_IsSetForTheSecondSideInAlternatingOrder(self):
        done = compare("NCCL_IB_QPS_PER_CONNECTION=s", "-e", "8", "--test", "lat",
                       NCCL_DEBUG="WARN", NCCL_IB_QPS_PER_CONNECTION="f")
        self.assert_succeeded(done)
        self.assertIn("# first: unchanged, NCCL_IB_QPS_PER_CONNECTION=f; second: "
                      "NCCL_IB_QPS_PER_CONNECTION=s\n", done.stdout)
        self.assertEqual(warnings_of(done.stderr), "ffssssffffss", done.stderr)

    def test_Json_IsWrittenInAdditionToTheTable(self):
        with tempfile.TemporaryDirectory(prefix="compare setting ") as folder:
            file = pathlib.Path(folder) / "report.json"
            done = compare("NCCL_IB_QPS_PER_CONNECTION=2", "-e", "8", "--test", "bw", "--no-check",
                           "--json", str(file))
            self.assert_succeeded(done)
            report = json.loads(file.read_text())
        self.assertTrue(done.stdout.endswith("\n# nothing verified (--no-check)\n"), done.stdout)
        self.assertEqual(len(report["rounds"]), 3)
        self.assertNotIn("typical_us", report["medians"][0])

    def test_WrongData_IsCountedOverAllRoundsAndFails(self):
        done = run_script("--with", "REFERENCE_PLUGIN_DEFECT=corrupts_large", "--rounds", "2",
                          "sendrecv", "--plugin", os.environ["REFERENCE_PLUGIN"], "-b", "8M", "-e",
                          "8M", "--test", "bw", "-n", "2")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr, "")
        self.assertIn("\n 8388608 ", done.stdout)
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
        self.assertIn("busbw(GB/s)", done.stdout)
        self.assertTrue(done.stdout.endswith("# 2 ranks, 2 sizes, 1 rounds of each side: 0 wrong\n"),
                        done.stdout)

    def test_UnsuitableOptions_AreUsageErrors(self):
        def rejected(setting, *arguments):
            done = compare(setting, *arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(done.stdout, "")
            return done.stderr

        self.assertIn("leave out --osu", rejected("A=1", "--osu"))
        self.assertIn("leave out --root", rejected("A=1", "--root", "127.0.0.1:29500", "--rank", "0"))
        self.assertIn("add --memory cuda", rejected("staging", "--memory", "host"))
        self.assertIn('--with: "NAME" is neither staging nor NAME=VALUE', rejected("NAME"))
        rejected("=1")
        rejected("A=1", "--rounds", "0")
        self.assertEqual(run_script("sendrecv", "--rounds", "2").returncode, 2)


if __name__ == "__main__":
    unittest.main()
