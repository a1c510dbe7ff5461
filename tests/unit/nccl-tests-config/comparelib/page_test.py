import html.parser
import re
import unittest
import xml.etree.ElementTree

import samples
from comparelib import comparison, marks, outcome, page, plot

_VOID = {"meta", "br", "hr", "img", "link", "input"}


class _Checker(html.parser.HTMLParser):
    """Fails where an element is not closed, or closed twice."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.text, self.links, self.errors = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.links += [
            value for name, value in attrs
            if name in ("src", "href", "data", "srcset", "xlink:href")
        ]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.errors.append(tag)

    def handle_data(self, data):
        self.text.append(data)


def _page(session, result=None):
    program = "all_reduce_perf"
    points = comparison.points(session, program)
    return page.html(session, {program: points}, {program: plot.svg(session, points, "a < b")},
                     result or outcome.Outcome("6 runs, 0 not as requested", ["a line"]))


def _checked(text):
    checker = _Checker()
    checker.feed(text)
    checker.close()
    return checker


def _session(**changes):
    return samples.of_times({"gdr": [{8: 10, 1 << 20: 30}, {8: 11, 1 << 20: 31}],
                             "ib": [{8: 20, 1 << 20: 29}, {8: 21, 1 << 20: 33}]}, **changes)


class PageTest(unittest.TestCase):

    def test_Page_IsWellFormed(self):
        checker = _checked(_page(_session()))
        self.assertEqual((checker.errors, checker.open), ([], []))

    def test_Page_NeedsNoOtherFile(self):
        text = _page(_session())
        self.assertEqual(_checked(text).links, [])
        self.assertEqual(re.findall(r"url\(|@import|<script|<link|<img", text), [])
        self.assertEqual(set(re.findall(r"https?://[^\s\"<]+", text)),
                         {"http://www.w3.org/2000/svg"})

    def test_Page_HasTableSentencesPictureCommandsAndVersions(self):
        session = _session(versions={
            "NVIDIA driver": "580.95",
            "HCA firmware": "mlx5_0 28.39.1002"
        })
        text = "\n".join(_checked(_page(session)).text)
        for part in ("gdr has 1.", "faster", "bus bandwidth, GB/s", "NCCL_NET=gdr all_reduce_perf",
                     "580.95", "mlx5_0 28.39.1002", "2.19.6", "22803", "2026-11-23T18:00:00+00:00",
                     "2 x NVIDIA H200", "host1, host2", "via NET/GDR/0/GDRDMA x1",
                     "None: all 4 runs are in the tables.", "6 runs, 0 not as requested", "a line"):
            self.assertIn(part, text)
        self.assertEqual(_page(session).count("<svg"), 1)

    def test_RunsLeftOutAndDefects_AreListedWithTheirReasons(self):
        session = _session()
        session.runs[0] = samples.run("gdr", 0, {8: 10}, left_out=["silent fallback: Socket"])
        session.runs[1] = samples.run("gdr", 1, {8: 10}, defects=["ended with exit code 3"])
        session.notes.append("ib: nothing shows the transport.")
        text = "\n".join(_checked(_page(session)).text)
        self.assertIn("all_reduce_perf over gdr, round 1: silent fallback: Socket", text)
        self.assertIn("all_reduce_perf over gdr, round 2: ended with exit code 3", text)
        self.assertIn("nothing shows the transport", text)

    def test_TextsOfOthers_CannotBecomeElements(self):
        session = _session()
        session.runs[0] = samples.run("gdr",
                                      0, {8: 10},
                                      left_out=["<script>alert(1)</script>"],
                                      command="a <b> && c")
        text = _page(session)
        self.assertNotIn("<script>", text)
        self.assertIn("a &lt;b&gt; &amp;&amp; c", text)

    def test_FailedSession_IsMarked(self):
        self.assertIn('class="verdict fail"', _page(_session(), outcome.Outcome("x", failed=True)))
        self.assertNotIn('class="verdict fail"', _page(_session()))


class PlotTest(unittest.TestCase):

    def _svg(self, session):
        return plot.svg(session, comparison.points(session, "all_reduce_perf"), "title & more")

    def test_Picture_IsXmlWithASymbolForEveryMeasurement(self):
        root = xml.etree.ElementTree.fromstring(self._svg(_session()))
        titles = [node.text for node in root.iter("{http://www.w3.org/2000/svg}title")]
        # Two sides, two sizes, time and bandwidth; and the ratio of one side.
        self.assertEqual(sum(" us (" in title for title in titles), 4)
        self.assertEqual(sum("GB/s (" in title for title in titles), 4)
        self.assertIn("gdr, 8: 10.5 us (10-11)", titles)
        self.assertEqual(sum("times the speed of ib" in title for title in titles), 2)

    def test_Control_IsABandBelowTheRatios(self):
        session = samples.of_times({"ib": [{8: 10, 16: 10}] * 2, "gdr": [{8: 9, 16: 9}] * 2,
                                    "ib#2": [{8: 10, 16: 11}, {8: 9, 16: 10}]}, control="ib#2")
        self.assertEqual(self._svg(session).count("<polygon"), 1)
        self.assertNotIn("<polygon", self._svg(_session()))

    def test_EveryElement_LiesInsideThePicture(self):
        root = xml.etree.ElementTree.fromstring(self._svg(_session()))
        for name, most in (("x", plot.WIDTH), ("cx", plot.WIDTH), ("x1", plot.WIDTH),
                           ("y", plot.HEIGHT), ("cy", plot.HEIGHT)):
            for node in root.iter():
                if name in node.attrib:
                    self.assertTrue(0 <= float(node.attrib[name]) <= most, (node.tag, node.attrib))

    def test_SevenSides_AreDistinguishable(self):
        session = samples.of_times({f"side{index}": [{
            8: 10 + index
        }] for index in range(7)},
                                   base="side0")
        pairs = {(marks.Style(session).colour(side), marks.Style(session).symbol(side))
                 for side in session.sides}
        self.assertEqual(len(pairs), 7)

    def test_NamesThatDoNotFit_BeginAnotherRowOfTheLegend(self):
        session = samples.of_times({f"transport_with_a_name_of_some_length_{index}": [{8: 10}] for index in range(6)},
                                   base="transport_with_a_name_of_some_length_0")
        root = xml.etree.ElementTree.fromstring(self._svg(session))
        names = [node for node in root.iter("{http://www.w3.org/2000/svg}text") if (node.text or "").startswith("transport_")]
        rows = {node.attrib["y"] for node in names}
        self.assertEqual((len(names), len(rows)), (6, 3))
        self.assertTrue(all(float(node.attrib["x"]) + 7.6 * len(node.text) < plot.WIDTH for node in names))
        self.assertEqual(float(root.attrib["height"]), plot.HEIGHT + 36)

    def test_NothingMeasured_GivesNoPicture(self):
        session = samples.of_times({"gdr": [{}], "ib": [{}]})
        self.assertIsNone(self._svg(session))

    def test_OneSizeAndOneSide_AreDrawn(self):
        xml.etree.ElementTree.fromstring(self._svg(samples.of_times({"ib": [{8: 10}]})))


if __name__ == "__main__":
    unittest.main()
