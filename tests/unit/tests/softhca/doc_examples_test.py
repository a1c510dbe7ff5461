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

    def test_ConsoleBlocks_AreCommandsWithTheirOutputAndLine(self):
        found = [(e.command, e.shown, e.number) for e in doc_examples.examples(_DOCUMENT)]
        self.assertEqual(found, [("export GREETING=hello", [], 4),
                                 ("echo $GREETING \\\n    world", ["hello world"], 5),
                                 ('echo "$GREETING again"', [], 21)])
        with self.assertRaisesRegex(ValueError, "line 2: "):
            doc_examples.examples("```console\necho 1\n```\n")

    def test_ShellBlockWithoutAReason_IsFoundInDocumentsWithExamples(self):
        without = _DOCUMENT.replace("Not run by the tests:", "Careful:")
        for text, lines in ((_DOCUMENT, []), (without, [11]),
                            (without.replace("```console", "```text"), [])):
            self.assertEqual(doc_examples.unexplained_blocks(text), lines)


class DifferenceTest(unittest.TestCase):

    def test_Output_DiffersWhereItShould(self):
        for shown, printed, same in (
                ("a b\n  c", "a   b\n\nc\n", True), ("a b\nc", "a b\nd", False),
                # Measurements may differ, other numbers and versions not.
                ("65536 1.25 GB/s", "65536 320.7 GB/s", True), ("65536 1.25 GB/s", "65536 320 GB/s", True),
                ("1.25 GB/s", "inf GB/s", False), ("65536 bytes", "65537 bytes", False),
                ("version 0.1.0", "version 0.2.0", False), ("at 192.0.2.1", "at 192.0.2.2", False),
                # Dots stand for text and for lines.
                ("pid ... host\n...\nend", "pid 17 host\none\ntwo\nend", True),
                ("pid ... host\n...\nend", "pid 17 host\nend", True), ("...\nmiddle\n...", "one\nmiddle\nthree", True),
                ("...\none\n...\ntwo\n...", "two\none", False),
                ("one", "one\ntwo", False), ("two", "one\ntwo", False), ("", "anything", True)):
            with self.subTest(shown=shown, printed=printed):
                self.assertEqual(
                    doc_examples.difference(shown.split("\n"), printed.split("\n")) is None, same)


class RunTest(unittest.TestCase):

    def test_Commands_RunInOneShellInACopyOfTheCheckout(self):
        for text, count, found in (
            (_DOCUMENT, 3, []), ("```console\n$ false\n$ echo 1\n2\n$ echo 3\n3\n```\n", 3,
                                 [["docs/a.md:2: false", "ended with status 1; its output was"],
                                  ["docs/a.md:3: echo 1",
                                   "did not print"]]), ("```console\n$ exit 0\n$ echo 1\n```\n",
                                                        None, [["docs/a.md:2: exit 0"]]),
            ("```console\n$ touch made; ls LICENSE docs/rails.md\nLICENSE\ndocs/rails.md\n```\n", 1,
             [])):
            with self.subTest(text), tempfile.TemporaryDirectory(
                    prefix="doc examples test ") as build:
                ran, failures = doc_examples.failures("docs/a.md", text, pathlib.Path(build))
                self.assertEqual(
                    [one.split("\n")[:len(lines)] for one, lines in zip(failures, found)], found)
                self.assertEqual(len(failures), len(found))
                self.assertIn(count, (ran, None))
        self.assertFalse((ROOT / "made").exists())


if __name__ == "__main__":
    unittest.main()
