import unittest

import samples
from comparelib import perf_json, perf_table


class ParseTest(unittest.TestCase):

    def test_EveryVersion_GivesRowsAndFacts(self):
        for version in perf_json.VERSIONS:
            with self.subTest(version):
                table = perf_json.parse(samples.json_text({8: 20.5, 1 << 20: 131.25}, version))
                self.assertEqual([row.size for row in table.rows], [8, 1 << 20])
                self.assertEqual(table.rows[0].out_of_place,
                                 perf_table.Measure(20.5, 8 / 20.5e3, 8 / 20.5e3, 0))
                self.assertEqual((table.program, table.library), ("all_reduce_perf", "22803"))
                self.assertEqual((table.out_of_bounds, table.average_busbw), (0, 1.5))
                self.assertEqual(table.notes, [])

    def test_Devices_OfOneProcess_CountForAllItsGpus(self):
        table = perf_json.parse(samples.json_text({8: 20}))
        self.assertEqual(table.devices, ["NVIDIA H200"] * 2)
        self.assertEqual(table.hosts, ["host1"] * 2)

    def test_UncheckedHalf_HasNoCount(self):
        text = samples.json_text({8: 20}).replace('"nwrong":0.0', '"nwrong":null')
        self.assertIsNone(perf_json.parse(text).rows[0].wrong())

    def test_CpuTime_IsReadAndMarked(self):
        table = perf_json.parse(samples.json_text({8: 20}).replace('"time":', '"cpu_time":'))
        self.assertTrue(table.cpu_time)
        self.assertEqual(table.rows[0].in_place.time_us, 20)

    def test_MisspeltAverageOfVersion1_IsRead(self):
        text = samples.json_text({
            8: 20
        }, 1).replace("average_bus_bandwidth",
                      "average_bus_bandwidith").replace('"bandwidth"', '"bandwidith"')
        self.assertEqual(perf_json.parse(text).average_busbw, 1.5)

    def test_InfiniteAndUndefinedNumbers_AreNoResults(self):
        text = samples.json_text({8: 20}).replace('"time":20', '"time":inf', 1)
        table = perf_json.parse(text)
        self.assertIsNone(table.rows[0].out_of_place)
        self.assertEqual(table.notes, ["at 8 B the time is inf"])
        text = samples.json_text({8: 20}).replace('"time":20', '"time":"nan"', 1)
        self.assertIsNone(perf_json.parse(text).rows[0].out_of_place)

    def test_HalfThatIsNull_IsAbsent(self):
        text = samples.json_text({8: 20})
        start = text.index('"out_of_place":') + len('"out_of_place":')
        text = text[:start] + "null" + text[text.index("}", start) + 1:]
        self.assertIsNone(perf_json.parse(text).rows[0].out_of_place)

    def test_NewerVersion_IsReadWithANote(self):
        self.assertRegex(
            perf_json.parse(samples.json_text({8: 20}, 4)).notes[0], "version 4; known are 1 to 3")


class TornTest(unittest.TestCase):

    def test_AbortedRun_KeepsItsCompleteRows(self):
        text = samples.json_text({8: 20, 16: 21, 32: 22})
        table = perf_json.parse(text[:text.index('"size":32') + 30])
        self.assertEqual([row.size for row in table.rows], [8, 16])
        self.assertEqual(table.notes, ["the program ended before its last lines"])
        self.assertIsNone(table.out_of_bounds)
        self.assertEqual(table.devices, ["NVIDIA H200"] * 2)

    def test_AnyPrefix_IsATableOrAnError(self):
        text = samples.json_text({8: 20, 16: 21})
        for length in range(len(text)):
            try:
                self.assertLessEqual(len(perf_json.parse(text[:length]).rows), 2)
            except perf_json.JsonError:
                pass

    def test_OtherJson_IsAnError(self):
        for text, reason in (("[1]", "no list"), ("{}", 'no list "results"'),
                             ('{"results": 3}', "no list"), ("{nonsense", "ends before"),
                             ('{"results": [{"size": 8, "out_of_place": {"time": 1}}]}', "alg_bw")):
            with self.subTest(text), self.assertRaisesRegex(perf_json.JsonError, reason):
                perf_json.parse(text)

    def test_FirstCharacter_ShowsTheForm(self):
        self.assertTrue(perf_json.looks_like_json("\n {"))
        self.assertFalse(perf_json.looks_like_json("# nThread"))


if __name__ == "__main__":
    unittest.main()
