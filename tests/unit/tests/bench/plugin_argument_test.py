import argparse
import pathlib
import unittest

import paths  # noqa: F401  (sets the module path)
from plugin_argument import Plugin


class ParseTest(unittest.TestCase):
    def test_NameFileAndTable_AreTaken(self):
        self.assertEqual(Plugin.parse("sharp=/a/b.so:8"), Plugin("sharp", pathlib.Path("/a/b.so"), "8"))
        self.assertEqual(Plugin.parse("x=/a:b.so"), Plugin("x", pathlib.Path("/a:b.so"), "newest"))

    def test_NoName_IsThatOfTheFile(self):
        for text in ("/a/libnccl-net.so.1:12", "=/a/libnccl-net.so.1:12"):
            self.assertEqual(Plugin.parse(text), Plugin("libnccl-net", pathlib.Path("/a/libnccl-net.so.1"), "12"))

    def test_NoFile_IsRefused(self):
        for text in ("", "x=", "x=:8", ":8"):
            with self.subTest(text=text), self.assertRaises(argparse.ArgumentTypeError):
                Plugin.parse(text)


if __name__ == "__main__":
    unittest.main()
