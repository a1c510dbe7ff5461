import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "lint"))
import check_worked_examples  # noqa: E402

_DOCUMENT = """\
# A page

```diff
diff --git a/list.txt b/list.txt
--- a/list.txt
+++ b/list.txt
@@ -2,2 +2,3 @@
 one
+two
 three
```

Text, and a file that is new:

```diff
diff --git a/new.txt b/new.txt
new file mode 100644
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+hello
```
"""


class CheckWorkedExamplesTest(unittest.TestCase):

    def failure(self, content):
        """What is wrong with the document's patch in a tree whose list.txt has that content."""
        with tempfile.TemporaryDirectory(prefix="worked examples test ") as folder:
            root = pathlib.Path(folder).resolve()
            (root / "list.txt").write_text(content)
            return check_worked_examples.failure(check_worked_examples.patch_of(_DOCUMENT), root)

    def test_TreeThatThePatchFits_Checked_IsFine(self):
        self.assertEqual(self.failure("zero\none\nthree\nfour\n"), "")

    def test_TreeThatHasGrownElsewhere_Checked_IsFine(self):
        self.assertEqual(self.failure("zero\nhalf\none\nthree\nfour\n"), "")

    def test_TreeThatHasChangedThere_Checked_IsNamed(self):
        self.assertIn("list.txt", self.failure("zero\none\nfour\n"))

    def test_DocumentWithoutDiffBlocks_Read_HasNoPatch(self):
        self.assertEqual(check_worked_examples.patch_of("```\n+two\n```\n"), "")


if __name__ == "__main__":
    unittest.main()
