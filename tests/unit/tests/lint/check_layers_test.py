import pathlib
import tempfile
import unittest

import paths  # noqa: F401  (sets the module path)
import check_layers


class CheckLayersTest(unittest.TestCase):

    def check(self, files):
        """Findings and number of includes of a tree of {file: the names that it includes}."""
        with tempfile.TemporaryDirectory(prefix="layers test ") as folder:
            root = pathlib.Path(folder)
            for name, included in files.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("#pragma once\n"
                                + "".join(f'#include "{other}"\n' for other in included))
            return check_layers.findings(root)

    def test_IncludesThatPointDown_Checked_AreFine(self):
        found, includes = self.check({"topology/rails.h": ["base/result.h", "topology/model.h"],
                                      "topology/model.h": ["base/result.h"], "base/result.h": []})
        self.assertEqual((found, includes), ([], 3))

    def test_UpwardInclude_Checked_IsFoundWithBothFolders(self):
        found, _ = self.check({"base/result.h": ["transport/data/rail.h"]})
        self.assertEqual(found, ["base/result.h includes transport/data/rail.h: base may not use "
                                 "transport/data"])

    def test_IncludeOfAnUnlistedFolder_Checked_IsFound(self):
        found, _ = self.check({"base/log.cc": ["tests/fakes/fake.h"]})
        self.assertIn("which is in no folder that base may use", found[0])

    def test_Circle_Checked_IsFoundOnce(self):
        found, _ = self.check({"base/a.h": ["base/b.h"], "base/b.h": ["base/c.h"],
                               "base/c.cc": ["base/a.h"], "base/c.h": []})
        self.assertEqual(found, ["circle of includes: base/a -> base/b -> base/c -> base/a"])

    def test_OwnHeader_Checked_IsNoCircle(self):
        self.assertEqual(self.check({"base/a.cc": ["base/a.h"], "base/a.h": []})[0], [])

    def test_Table_ListsEveryFolderAfterThoseThatItUses(self):
        self.assertEqual(self.check({})[0], [])


if __name__ == "__main__":
    unittest.main()
