import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from paths import ROOT

_FAKE = pathlib.Path(__file__).resolve().with_name("fake_nccl_test")


class CompareTest(unittest.TestCase):
    """Runs the script itself over fakes of the programs of nccl-tests."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="compare test ")  # with a space on purpose
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("all_reduce_perf", "sendrecv_perf"):
            (self.folder / name).symlink_to(_FAKE)

    def compare(self, *arguments, **settings):
        env = {name: value for name, value in os.environ.items()
               if not name.startswith(("NCCL_", "GDR_", "SOFTHCA_", "FAKE_"))}
        env.update({"NCCL_TESTS_DIR": str(self.folder)}, **settings)
        self.output = self.folder / "out"
        return subprocess.run(
            [str(ROOT / "nccl-tests-config" / "compare"), "--output", str(self.output), *arguments],
            env=env, cwd=self.folder, capture_output=True, text=True, check=False)

    def test_ThreeTransports_Compared_GiveOneTableAProgram(self):
        done = self.compare("--repeat", "2")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("via NET/GDR/0/GDRDMA x1", done.stdout)
        self.assertIn("12 runs, 0 not as requested", done.stdout)
        rows = [line.split() for line in done.stdout.splitlines() if line.split()[:1] == ["32"]]
        self.assertEqual(len(rows), 2)
        self.assertEqual(rows[0][-2:], ["2.00", "0.50"])  # gdr/ib, socket/ib

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

    def test_DefectOfARun_Compared_FailsWithItsName(self):
        for defect, text in {"wrong": "3 wrong values at 16 B", "fallback": "silent fallback",
                             "no_rows": "printed no result", "nvlink": "no channel went over",
                             "exit": "ended with exit code 1"}.items():
            with self.subTest(defect):
                done = self.compare("--transports", "gdr", FAKE_DEFECT=defect)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(text, done.stdout)

    def test_StagedChannels_WithGpuDirectOn_Fail(self):
        self.assertEqual(self.compare("--gpudirect", "on").returncode, 0)
        self.assertEqual(self.compare("--gpudirect", "on", FAKE_DEFECT="staged").returncode, 1)
        self.assertEqual(self.compare("--gpudirect", "off").returncode, 0)

    def test_SoftHca_Asked_ComesFirstInTheLibraryPath(self):
        softhca = self.folder / "soft hca"
        softhca.mkdir()
        (softhca / "libibverbs.so.1").touch()
        done = self.compare("--softhca", str(softhca), "--transports", "gdr")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        command = json.loads((self.output / "results.json").read_text())["runs"][0]["command"]
        self.assertIn(f"LD_LIBRARY_PATH='{softhca}:", command)
        self.assertIn("NCCL_NET_GDR_LEVEL=SYS", command)

    def test_MissingProgram_Compared_SaysWhereItLooked(self):
        (self.folder / "sendrecv_perf").unlink()
        done = self.compare()
        self.assertEqual(done.returncode, 2)
        self.assertIn(str(self.folder), done.stderr)

    def test_UnknownTransport_Compared_NamesTheKnownOnes(self):
        done = self.compare("--transports", "gdr,roce")
        self.assertEqual(done.returncode, 2)
        self.assertIn("there are gdr, gdr_no_ar, ib, ib_no_ar, socket", done.stderr)


if __name__ == "__main__":
    unittest.main()
