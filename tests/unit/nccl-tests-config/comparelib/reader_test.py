import pathlib
import tempfile
import unittest

import samples
from comparelib import options, reader

_OLD = samples.text({
    8: 20
}).split("#", 3)[3].replace("# Collective test concluded: all_reduce_perf\n", "")


class ReaderTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, text):
        (self.folder / name).write_text(text)
        return str(self.folder / name)

    def session(self, *words):
        return reader.read_session(options.parse(["--read", *words]))

    def times(self, session, program="all_reduce_perf"):
        return {(run.transport, run.repeat): [row.out_of_place.time_us for row in run.table.rows]
                for run in session.runs if run.program == program}


class InputsTest(ReaderTest):

    def test_FilesOfANameAreItsRounds_InTheOrderGiven(self):
        first, second = self.file("a", samples.text({8: 20})), self.file("b", samples.text({8: 21}))
        session = self.session(f"ib={first}", second, "gdr=", second)
        self.assertEqual(self.times(session), {("ib", 0): [20], ("ib", 1): [21], ("gdr", 0): [21]})
        self.assertEqual((session.sides, session.base, session.rounds), (["ib", "gdr"], "ib", 2))

    def test_Pattern_IsExpandedInOrder(self):
        for index in (2, 1):
            self.file(f"run{index}.out", samples.text({8: index}))
        self.assertEqual(self.times(self.session(f"ib={self.folder}/run*.out")), {
            ("ib", 0): [1],
            ("ib", 1): [2]
        })

    def test_OutputFolderOfAComparison_IsReadAsItWasRun(self):
        for side, index, time in (("ib", 1, 10), ("ib", 2, 11), ("gdr", 1, 12), ("ib#2", 1, 13)):
            self.file(f"all_reduce_perf.{side}.{index}.out", samples.text({8: time}))
        self.file("all_reduce_perf.gdr.1.err", samples.LOG.format(network="GDR"))
        self.file("all_reduce_perf.gdr.1.json", samples.json_text({8: 12.345}))
        self.file("results.json", "{}")
        session = self.session(str(self.folder))
        self.assertEqual(self.times(session), {
            ("ib", 0): [10],
            ("ib", 1): [11],
            ("gdr", 0): [12.345],
            ("ib#2", 0): [13]
        })
        self.assertEqual(session.control, "ib#2")
        self.assertEqual(
            next(run for run in session.runs if run.transport == "gdr").log.networks, {"GDR"})

    def test_RoundWithoutAFile_LeavesTheOthersPairedAsTheyWereRun(self):
        for side, index, time in (("ib", 1, 10), ("ib", 2, 11), ("ib", 3, 12), ("gdr", 1, 5), ("gdr", 3, 6)):
            self.file(f"all_reduce_perf.{side}.{index}.out", samples.text({8: time}))
        session = self.session(str(self.folder))
        self.assertEqual(self.times(session), {("ib", 0): [10], ("ib", 1): [11], ("ib", 2): [12], ("gdr", 0): [5],
                                               ("gdr", 2): [6]})
        self.assertEqual(session.rounds, 3)
        twice = self.session(str(self.folder), str(self.folder))
        self.assertEqual(sorted(index for side, index in self.times(twice) if side == "gdr"), [0, 2, 3, 5])

    def test_RunOfAFolderThatPrintedNothing_IsADefectOfThatRun(self):
        self.file("all_reduce_perf.ib.1.out", samples.text({8: 10}))
        self.file("all_reduce_perf.gdr.1.out", "")
        self.file("all_reduce_perf.gdr.2.out", "mpirun was unable to find a host\n")
        self.file("all_reduce_perf.gdr.3.out", samples.text({8: 5}))
        self.file("all_reduce_perf.gdr.3.json", "{")
        session = self.session(str(self.folder))
        self.assertEqual(session.programs, ["all_reduce_perf"])
        self.assertEqual(self.times(session), {("ib", 0): [10], ("gdr", 0): [], ("gdr", 1): [], ("gdr", 2): [5]})
        self.assertEqual([(run.transport, run.repeat) for run in session.failed()], [("gdr", 0), ("gdr", 1)])
        self.assertEqual(session.failed()[0].left_out, ["printed no result"])

    def test_UnusableWords_AreNamed(self):
        for words, reason in ((["a.out"], "put the name of its transport before it, NAME=a.out"),
                              (["ib=missing.out"], "there is no file missing.out"),
                              (["ib=none*.out"], "no file matches none"),
                              (["ib="], "no file follows"), ([str(self.folder)],
                                                             "has no output of an earlier")):
            with self.subTest(words), self.assertRaisesRegex(reader.ReadError, reason):
                reader.inputs(words)


class ProgramTest(ReaderTest):

    def test_ProgramOfTheOutput_Counts(self):
        path = self.file("sendrecv.txt", samples.text({8: 20}))
        self.assertEqual(self.session(f"ib={path}").programs, ["all_reduce_perf"])

    def test_ProgramBuiltUnderAnotherName_IsTheSame(self):
        path = self.file("x", samples.text({8: 20}, "all_reduce_perf_mpi"))
        self.assertEqual(self.session(f"ib={path}").programs, ["all_reduce_perf"])

    def test_OldOutput_IsNamedByItsFile(self):
        for name, program in (("reduce_scatter-ib.txt", "reduce_scatter_perf"),
                              ("ib.all_reduce.1", "all_reduce_perf"), ("alltoall.log",
                                                                       "alltoall_perf")):
            self.assertEqual(self.session(f"ib={self.file(name, _OLD)}").programs, [program])

    def test_OldOutputWithoutAName_NeedsOne(self):
        path = self.file("x.txt", _OLD)
        with self.assertRaisesRegex(reader.ReadError, "does not name its collective"):
            self.session(f"ib={path}")
        named = reader.read_session(
            options.parse(["--read", f"ib={path}", "--collectives", "broadcast"]))
        self.assertEqual(named.programs, ["broadcast_perf"])

    def test_SeveralPrograms_AreReadFromOneFile(self):
        path = self.file("log", samples.text({8: 20}) + samples.text({8: 30}, "alltoall_perf"))
        session = self.session(f"ib={path}")
        self.assertEqual(session.programs, ["all_reduce_perf", "alltoall_perf"])
        self.assertEqual(self.times(session, "alltoall_perf"), {("ib", 0): [30]})

    def test_Collectives_ChooseAmongThem(self):
        path = self.file("log", samples.text({8: 20}) + samples.text({8: 30}, "alltoall_perf"))
        arguments = ["--read", f"ib={path}", "--collectives"]
        self.assertEqual(
            reader.read_session(options.parse([*arguments, "alltoall"])).programs,
            ["alltoall_perf"])
        with self.assertRaisesRegex(reader.ReadError, "no file has a result of broadcast_perf"):
            reader.read_session(options.parse([*arguments, "broadcast"]))

    def test_SeveralTypes_BecomeTablesOfTheirOwn(self):
        both = samples.TEXT.format(program="all_reduce_perf",
                                   end=samples.END,
                                   rows=samples.row(8, 20) +
                                   samples.row(8, 30, kind=" half     max"))
        session = self.session(f"ib={self.file('a', both)}",
                               f"gdr={self.file('b', samples.text({8: 5}))}")
        self.assertEqual(session.programs,
                         ["all_reduce_perf (float sum)", "all_reduce_perf (half max)"])
        self.assertEqual(self.times(session, "all_reduce_perf (float sum)"), {
            ("ib", 0): [20],
            ("gdr", 0): [5]
        })


class DefectTest(ReaderTest):

    def problems(self, text, name="ib"):
        return self.session(f"{name}={self.file('file', text)}").runs[0]

    def test_TruncatedOutput_KeepsItsRowsAndIsADefect(self):
        run = self.problems(
            samples.text({8: 20}, end="          16             4     float     sum      -1"))
        self.assertEqual(len(run.table.rows), 1)
        self.assertEqual(run.defects, [
            "truncated, or the program was aborted: the closing lines are missing (the program "
            "ended while it measured 16 B)"
        ])

    def test_TruncatedJson_KeepsItsRowsAndIsADefect(self):
        text = samples.json_text({8: 20, 16: 21})
        run = self.problems(text[:text.index('"size":16')])
        self.assertEqual(len(run.table.rows), 1)
        self.assertRegex(run.defects[0], "^truncated")

    def test_WrongValues_AreADefect(self):
        text = samples.TEXT.format(program="all_reduce_perf",
                                   rows=samples.row(8, 20, 3),
                                   end=samples.END)
        self.assertEqual(self.problems(text).defects, ["6 wrong values at 8 B"])

    def test_UncheckedValues_AreADefect(self):
        text = samples.TEXT.format(program="all_reduce_perf",
                                   rows=samples.row(8, 20, "N/A"),
                                   end=samples.END)
        self.assertRegex(self.problems(text).defects[0], "no value was checked")

    def test_SizesTwice_AreLeftOut(self):
        run = self.problems(samples.text({8: 20}, end=samples.row(8, 21) + samples.END))
        self.assertRegex(run.left_out[0], "printed a size more than once")

    def test_OtherTransportThanTheName_IsLeftOut(self):
        text = samples.LOG.format(network="Socket") + samples.text({8: 20})
        self.assertRegex(
            self.problems(text, "gdr").left_out[0],
            "silent fallback: the log has 'Using network Socket'")
        self.assertEqual(self.problems(text, "anything").left_out, [])

    def test_GpuDirectInARunWithout_IsLeftOut(self):
        text = samples.LOG.format(network="GDR") + samples.text({8: 20})
        self.assertRegex(
            self.problems(text, "gdr_no_gpudirect").left_out[0],
            "use GPUDirect, which was turned off")

    def test_FileWithoutLog_IsNoted(self):
        session = self.session(f"ib={self.file('a', samples.text({8: 20}))}")
        self.assertRegex(session.notes[0], "^ib: the files have no log of NCCL")

    def test_OtherText_IsAnErrorThatSaysWhatIsNeeded(self):
        for text, reason in (("hello\n", "has no result of nccl-tests: it needs"),
                             ("", "has no result of nccl-tests"),
                             ("{}", 'there is no list "results"'), ('{"a"',
                                                                    "ends before its results")):
            path = self.file("x", text)
            with self.subTest(text), self.assertRaisesRegex(reader.ReadError, f"^{path}.*{reason}"):
                self.session(f"ib={path}")

    def test_RunWithoutRows_IsLeftOutAndKept(self):
        self.assertEqual(self.problems(samples.text({})).left_out, ["printed no result"])

    def test_BinaryFile_IsNoCrash(self):
        (self.folder / "x").write_bytes(b"\xff\xfe\x00\x80" * 50)
        with self.assertRaisesRegex(reader.ReadError, "has no result of nccl-tests"):
            self.session(f"ib={self.folder}/x")


class DifferenceTest(ReaderTest):

    def test_OtherNumberOfRanksOrGpus_IsRefusedUnlessForced(self):
        text = samples.text({8: 20})
        lines = text.splitlines(keepends=True)
        fewer = "".join(line for line in lines if "Rank  1" not in line)
        for other, reason in ((fewer, "different ranks: 2 in .* and 1 in"), (text.replace(
                "H200", "H100"), "different GPUs: NVIDIA H200 in .* and NVIDIA H100 in"),
                              (text.replace("   time", "cputime"), "different clocks")):
            words = [f"ib={self.file('a', text)}", f"gdr={self.file('b', other)}"]
            with self.subTest(reason):
                with self.assertRaisesRegex(reader.ReadError, f"{reason}.*--force compares them"):
                    self.session(*words)
                forced = reader.read_session(options.parse(["--force", "--read", *words]))
                self.assertRegex(forced.notes[0], reason)


if __name__ == "__main__":
    unittest.main()
