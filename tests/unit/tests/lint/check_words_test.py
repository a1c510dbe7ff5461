import unittest

import paths  # noqa: F401  (sets the module path)
import check_words


class CheckWordsTest(unittest.TestCase):

    def find(self, text, name="a.cc"):
        return check_words.findings(name, text)

    def test_PlantedWord_Checked_IsFoundWithItsLineAndAdvice(self):
        found = self.find("// A port.\n// The user can mend it.\n")
        self.assertEqual(found, ["a.cc:2: 'mend': write fix"])

    def test_WordWithinANameOfCamelOrSnakeCase_Checked_IsFound(self):
        self.assertIn("'Told'", self.find("bool isToldOf();")[0])
        self.assertEqual(len(self.find("int stand_in_count; class StandInPool;")), 2)

    def test_OldKeyOfExcludedPorts_Checked_IsFound(self):
        self.assertIn("write excluded", self.find("root[\"not_rails\"]")[0])

    def test_UnknownFactInOldWords_Checked_IsFound(self):
        self.assertEqual(len(self.find("// What nobody tells.\n// It cannot be told.\n// It hears.")), 3)

    def test_WordInAFileName_Checked_IsFound(self):
        self.assertEqual(len(self.find("", name="transport/stand_in.h")), 1)

    def test_OtherCase_Checked_IsFound(self):
        self.assertEqual(len(self.find('printf("Mend: load the module");')), 1)

    def test_AllowedMeaning_Checked_IsNotFound(self):
        self.assertEqual(self.find("// Requests in flight overlap; a laptop collapses."), [])

    def test_FormerName_Checked_IsNotFound(self):
        self.assertEqual(self.find("- `findings` (was `complaints`)."), [])

    def test_PartOfAnotherWord_Checked_IsNotFound(self):
        self.assertEqual(self.find("// amendment, recommended, tellurium, aside"), [])

    def test_PlainText_Checked_HasNoFinding(self):
        self.assertEqual(self.find("// Registers the buffer and returns its rkey.\n"), [])


if __name__ == "__main__":
    unittest.main()
