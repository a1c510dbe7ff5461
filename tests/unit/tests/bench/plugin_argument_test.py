import argparse
import pathlib
import tempfile
import unittest

import paths  # noqa: F401  (sets the module path)
from plugin_argument import Plugin


class ParseTest(unittest.TestCase):
    def test_NameFileAndTable_AreTaken(self):
        self.assertEqual(Plugin.parse("sharp=/a/b.so:8"), Plugin("sharp", pathlib.Path("/a/b.so"), "8"))
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder).resolve() / "a:b.so"
            file.touch()
            self.assertEqual(Plugin.parse(f"x={file}"), Plugin("x", file, "newest"))
            self.assertEqual(Plugin.parse(f"x={file}:8"), Plugin("x", file, "8"))

    def test_Text_IsWhatParseReads(self):
        plugin = Plugin("x", pathlib.Path("/a/b.so"), "8")
        self.assertEqual(Plugin.parse(str(plugin)), plugin)

    def test_TableThatIsNoNumber_IsNamedWhereNoFileHasThatName(self):
        with self.assertRaisesRegex(argparse.ArgumentTypeError, "'/a/b.so:abc' does not exist, and 'abc' is no ver"):
            Plugin.parse("x=/a/b.so:abc")

    def test_NoName_IsThatOfTheFile(self):
        for text in ("/a/libnccl-net.so.1:12", "=/a/libnccl-net.so.1:12"):
            self.assertEqual(Plugin.parse(text), Plugin("libnccl-net", pathlib.Path("/a/libnccl-net.so.1"), "12"))

    def test_NoFile_IsRefused(self):
        for text in ("", "x=", "x=:8", ":8"):
            with self.subTest(text=text), self.assertRaises(argparse.ArgumentTypeError):
                Plugin.parse(text)


if __name__ == "__main__":
    unittest.main()
