import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "lint"))
import check_links  # noqa: E402


class CheckLinksTest(unittest.TestCase):

    def find(self, text):
        """Findings for docs/a.md with this text, beside docs/b.md and base/log.h."""
        with tempfile.TemporaryDirectory(prefix="links test ") as folder:
            root = pathlib.Path(folder).resolve()
            files = {"docs/a.md": text, "docs/b.md": "# B\n\n## The `x`, [y](z) & more\n",
                     "base/log.h": ""}
            for name, content in files.items():
                (root / name).parent.mkdir(exist_ok=True)
                (root / name).write_text(content)
            return check_links.findings("docs/a.md", {"base", "docs"}, root)

    def test_LinksToFilesAndHeadings_Checked_AreFine(self):
        self.assertEqual(self.find("[b](b.md), [up](../base/log.h), [x](b.md#the-x-y--more)\n"
                                   "![b](b.md)\n## Here\n[here](#here), [web](https://example.org/none)"), [])

    def test_LinkToAMissingFile_Checked_IsFoundWithItsLine(self):
        self.assertEqual(self.find("text\n[c](c.md)"), ["docs/a.md:2: link to c.md: no such file"])

    def test_LinkToAMissingHeading_Checked_IsFound(self):
        self.assertEqual(self.find("[b](b.md#nothing)"),
                         ["docs/a.md:1: link to b.md#nothing: no such heading"])

    def test_PathInACodeSpan_Checked_IsFoundWhereItIsMissing(self):
        self.assertEqual(self.find("`base/log.h`, `base/log`, `base/`, `docs/b.md --option`"), [])
        self.assertEqual(self.find("`base/gone.h`"),
                         ["docs/a.md:1: path base/gone.h: no such file"])

    def test_PathsThatBeginElsewhereOrHoldPatterns_Checked_AreFine(self):
        self.assertEqual(
            self.find("`build/lib/x.so`, `/sys/module`, `base/<name>.h`, `base/*_test.cc`"), [])

    def test_CodeBlock_Checked_IsSkippedAndKeepsLineNumbers(self):
        self.assertEqual(self.find("```\n[c](c.md)\n## not a heading\n```\n[c](d.md)"),
                         ["docs/a.md:5: link to d.md: no such file"])


if __name__ == "__main__":
    unittest.main()
