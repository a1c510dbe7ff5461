import pathlib
import tempfile
import unittest

import samples
from comparelib import options, reader, report


class ReaderTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, times, **changes):
        (self.folder / name).write_text(samples.json_text(times, **changes))
        return str(self.folder / name)

    def session(self, *words, more=()):
        return reader.read_session(options.parse(["--read", *words, *more]))

    def times(self, session):
        return {(run.transport, run.repeat): [row.out_of_place.time_us for row in run.table.rows]
                for run in session.runs}

    def test_FilesOfANameAreItsRounds_InTheOrderGiven(self):
        first, second = self.file("a", {8: 20}), self.file("b", {8: 21})
        session = self.session(f"ib={first}", second, f"gdr={second}")
        self.assertEqual(self.times(session), {("ib", 0): [20], ("ib", 1): [21], ("gdr", 0): [21]})
        self.assertEqual((session.sides, session.base, session.rounds), (["ib", "gdr"], "ib", 2))
        self.assertEqual(session.programs, ["all_reduce_perf"])

    def test_FilesOfCompare_KeepTheirRoundsAndHaveTheirLogs(self):
        for side, index, time in (("ib", 10, 12), ("ib", 2, 11), ("gdr", 1, 5), ("gdr", 10, 6),
                                  ("ib#2", 1, 13)):
            self.file(f"sendrecv_perf.{side}.{index}.json", {8: time})
        (self.folder / "sendrecv_perf.gdr.1.err").write_text(samples.LOG.format(network="GDR"))
        session = self.session(*(f"{side}={self.folder}/*.{side}.*.json"
                                 for side in ("gdr", "ib", "ib#2")))
        self.assertEqual(self.times(session), {("gdr", 0): [5], ("gdr", 9): [6], ("ib", 1): [11],
                                               ("ib", 9): [12], ("ib#2", 0): [13]})
        self.assertEqual((session.control, session.programs), ("ib#2", ["sendrecv_perf"]))
        self.assertEqual([run.log.networks for run in session.runs[:2]], [{"GDR"}, set()])

    def test_Log_IsHeldAgainstTheNamedTransport(self):
        path = self.file("x.json", {8: 20})
        for network, side, left_out in (("GDR", "gdr", False), ("IB", "gdr", True), ("IB", "other", False)):
            (self.folder / "x.err").write_text(samples.LOG.format(network=network))
            with self.subTest(side=side, network=network):
                self.assertEqual(bool(self.session(f"{side}={path}").runs[0].left_out), left_out)
        self.assertFalse(self.session(f"gdr={path}").facts["softhca"])
        (self.folder / "x.err").write_text("a:1:2 [0] NCCL INFO NET/IB : Using [0]softhca0:1/IB [RO]; OOB lo:::1<0>\n")
        self.assertTrue(self.session(f"gdr={path}").facts["softhca"])

    def test_Notes_NameTheNetworkAndWhatDiffers(self):
        slow = {"config": {"devices": [{"hostname": "h", "device_info": "A100"}]}}
        path, other = self.file("x.json", {8: 20}), self.file("y.json", {8: 20}, **slow)
        (self.folder / "x.err").write_text(samples.LOG.format(network="UCX"))
        notes = self.session(f"mine={path}", f"ib={other}").notes
        self.assertEqual(notes, [
            "mine: the log names the network UCX.",
            "ib: no log of NCCL is beside the files, so nothing shows which transport was used.",
            f"NOT COMPARABLE, the runs have different ranks: 1 in {other} and 2 in {path}.",
            f"NOT COMPARABLE, the runs have different GPUs: A100 in {other} and NVIDIA H200 in {path}."])
        self.assertEqual(report.verdicts(self.session(f"mine={path}", f"ib={other}"), []), notes[2:])

    def test_Kinds_AreProgramsOfTheirOwn(self):
        path = self.file("x.json", {}, results=[samples.result(8, 20), samples.result(8, 21, kind="half")])
        self.assertEqual(self.session(f"ib={path}").programs, ["all_reduce_perf (float sum)",
                                                               "all_reduce_perf (half sum)"])
        with self.assertRaisesRegex(reader.ReadError, "no file has a result of alltoall_perf"):
            self.session(f"ib={path}", more=("--collectives", "alltoall"))

    def test_UnusableWords_AreNamed(self):
        (self.folder / "torn.json").write_text('{"results": [')
        for words, reason in ((["a.json"], "put the name of its side before it, NAME=a.json"), ([
                "ib=missing.json"], "there is no file missing.json"), ([
                    "ib=none*.json"], "there is no file none"), (["ib="], "there is no file")):
            with self.subTest(words), self.assertRaisesRegex(reader.ReadError, reason):
                reader.inputs(words)
        with self.assertRaisesRegex(reader.ReadError, "torn.json: no complete JSON"):
            self.session(f"ib={self.folder}/torn.json")


if __name__ == "__main__":
    unittest.main()
