import pathlib
import tempfile
import unittest
from unittest import mock

import samples
from comparelib import comparison, plot


class PlotTest(unittest.TestCase):

    def draw(self, name, **options):
        times = {"gdr": [{8: 5, 16: 6}, {8: 6}], "ib": [{8: 10, 16: 11}, {8: 9}], "ib#2": [{8: 10}, {8: 10}]}
        session = samples.of_times(times, **options)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / name
            problem = plot.draw(session, comparison.points(session, "all_reduce_perf"), "a title",
                                path)
            return problem, path.read_bytes() if path.exists() else b""

    @unittest.skipIf(plot.library() is None, "python3-matplotlib is not installed")
    def test_Picture_IsWrittenInTheFormatOfItsName(self):
        for name, begins in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml")):
            problem, content = self.draw(name, control="ib#2")
            self.assertIsNone(problem)
            self.assertTrue(content.startswith(begins), content[:20])
        self.assertIsNone(self.draw("a.svg")[0])

    def test_WithoutMatplotlib_NamesThePackage(self):
        with mock.patch.object(plot, "library", lambda: None):
            problem, content = self.draw("a.png")
        self.assertIn("apt-get install python3-matplotlib", problem)
        self.assertEqual(content, b"")


if __name__ == "__main__":
    unittest.main()
