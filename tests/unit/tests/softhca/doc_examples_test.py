import pathlib
import tempfile
import unittest

from paths import ROOT
import doc_examples

_DOCUMENT = """\
# A page

```console
$ export GREETING=hello
$ echo $GREETING \\
    world
hello world
```

```sh
reboot
```

Not run by the tests: it ends them.

```
$ echo of no language
```

```console
$ echo "$GREETING again"
```
"""


class ParseTest(unittest.TestCase):

    def test_ConsoleBlocks_Parsed_AreCommandsWithTheirOutputAndLine(self):
        found = [(e.command, e.shown, e.number) for e in doc_examples.examples(_DOCUMENT)]
        self.assertEqual(found, [("export GREETING=hello", [], 4),
                                 ("echo $GREETING \\\n    world", ["hello world"], 5),
                                 ('echo "$GREETING again"', [], 21)])

    def test_ConsoleBlockWithoutACommand_Parsed_IsAnErrorWithItsLine(self):
        with self.assertRaisesRegex(ValueError, "line 2: "):
            doc_examples.examples("```console\necho 1\n```\n")

    def test_ShellBlockWithAReason_Checked_IsFine(self):
        self.assertEqual(doc_examples.unexplained_blocks(_DOCUMENT), [])

    def test_ShellBlockWithoutAReason_Checked_IsFoundInDocumentsWithExamples(self):
        text = _DOCUMENT.replace("Not run by the tests:", "Careful:")
        self.assertEqual(doc_examples.unexplained_blocks(text), [11])
        self.assertEqual(doc_examples.unexplained_blocks(text.replace("```console", "```text")), [])


class DifferenceTest(unittest.TestCase):

    def find(self, shown, printed):
        return doc_examples.difference(shown.split("\n"), printed.split("\n"))

    def test_SameLines_Compared_HaveNoDifference(self):
        self.assertIsNone(self.find("a b\n  c", "a   b\n\nc\n"))

    def test_OtherWord_Compared_IsFound(self):
        self.assertEqual(self.find("a b\nc", "a b\nd"), "a b\nc")

    def test_Measurements_Compared_MayDiffer(self):
        self.assertIsNone(self.find("65536 1.25 GB/s", "65536 320.7 GB/s"))
        self.assertIsNone(self.find("65536 1.25 GB/s", "65536 320 GB/s"))

    def test_OtherNumbersAndVersions_Compared_AreFound(self):
        self.assertIsNotNone(self.find("65536 bytes", "65537 bytes"))
        self.assertIsNotNone(self.find("version 0.1.0", "version 0.2.0"))
        self.assertIsNotNone(self.find("at 192.0.2.1", "at 192.0.2.2"))
        self.assertIsNotNone(self.find("1.25 GB/s", "inf GB/s"))

    def test_Dots_Compared_StandForTextAndForLines(self):
        self.assertIsNone(self.find("pid ... host\n...\nend", "pid 17 host\none\ntwo\nend"))
        self.assertIsNone(self.find("pid ... host\n...\nend", "pid 17 host\nend"))
        self.assertIsNone(self.find("...\nmiddle\n...", "one\nmiddle\nthree"))

    def test_LinesInAnotherOrder_Compared_AreFound(self):
        self.assertEqual(self.find("...\none\n...\ntwo\n...", "two\none"), "two")

    def test_MoreLinesThanShown_Compared_AreFound(self):
        self.assertIsNotNone(self.find("one", "one\ntwo"))
        self.assertIsNotNone(self.find("two", "one\ntwo"))

    def test_NothingShown_Compared_AllowsAnything(self):
        self.assertIsNone(self.find("", "anything"))


class RunTest(unittest.TestCase):

    def failures(self, text):
        with tempfile.TemporaryDirectory(prefix="doc examples test ") as build:
            return doc_examples.failures("docs/a.md", text, pathlib.Path(build))

    def test_CommandsOfADocument_Run_ShareOneShell(self):
        self.assertEqual(self.failures(_DOCUMENT), (3, []))

    def test_CommandsThatFailOrPrintSomethingElse_Run_AreNamedWithTheirLine(self):
        count, found = self.failures("```console\n$ false\n$ echo 1\n2\n$ echo 3\n3\n```\n")
        self.assertEqual(count, 3)
        self.assertEqual([text.split("\n")[:2] for text in found],
                         [["docs/a.md:2: false", "ended with status 1; its output was"],
                          ["docs/a.md:3: echo 1", "did not print"]])

    def test_ShellThatEnds_Run_IsAFailureOfTheCommandThatEndedIt(self):
        _, found = self.failures("```console\n$ exit 0\n$ echo 1\n```\n")
        self.assertEqual([text.split("\n")[:1] for text in found], [["docs/a.md:2: exit 0"]])

    def test_FilesOfTheCheckout_Run_AreThereAndStayAsTheyAre(self):
        text = "```console\n$ touch made; ls LICENSE docs/rails.md\nLICENSE\ndocs/rails.md\n```\n"
        self.assertEqual(self.failures(text), (1, []))
        self.assertFalse((ROOT / "made").exists())


if __name__ == "__main__":
    unittest.main()
