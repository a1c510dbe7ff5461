import os
import pathlib
import tempfile
import unittest
from unittest import mock

import paths  # noqa: F401  (sets the module path)
from comparelib import png


class PngTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.enterContext(mock.patch.dict(os.environ, {"PATH": f"{self.folder}:/usr/bin:/bin"}))

    def _program(self, text):
        path = self.folder / "rsvg-convert"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def _convert(self):
        return png.convert(self.folder / "a.svg", self.folder / "a.png")

    def test_Converter_WritesTheFile(self):
        self._program('[ "$5" = "${4%.png}.svg" ] && echo x >"$4"')
        self.assertIsNone(self._convert())
        self.assertEqual((self.folder / "a.png").read_text(), "x\n")

    def test_NoConverter_NamesThePackage(self):
        os.environ["PATH"] = str(self.folder)
        self.assertRegex(self._convert(), "apt-get install librsvg2-bin")

    def test_ConverterThatFails_IsReported(self):
        self._program("echo out of ideas >&2; exit 3")
        os.environ["PATH"] = f"{self.folder}"
        self.assertRegex(self._convert(), "rsvg-convert failed: out of ideas")
        self._program('echo half >"$4"; exit 3')
        self.assertRegex(self._convert(), "rsvg-convert failed")


if __name__ == "__main__":
    unittest.main()
