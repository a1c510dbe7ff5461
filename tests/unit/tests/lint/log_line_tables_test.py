import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "lint"))
import log_line_tables  # noqa: E402

_HEADER = "| log line | cause | fix |\n|---|---|---|\n"


class LogLineTablesTest(unittest.TestCase):

    def read(self, *rows):
        return log_line_tables.read_tables("# Title\n\n" + _HEADER + "\n".join(rows) + "\n")

    def test_RowWithQuotations_Read_HasEachWithItsMark(self):
        quotations, found = self.read("| `the port ` ... ` is down`, `some other` (INFO) | a | b |")
        self.assertEqual([(one.line, one.parts, one.mark) for one in quotations],
                         [(5, ("the port ", " is down"), ""), (5, ("some other",), "INFO")])
        self.assertEqual(found, [])

    def test_OtherTables_Read_AreNoLogLines(self):
        text = "| variable | default |\n|---|---|\n| `some text here` | 1 |\n"
        self.assertEqual(log_line_tables.read_tables(text), ([], []))

    def test_CellThatIsNoListOfQuotations_Read_IsFound(self):
        _, found = self.read("| `the port is down`, then `another` | a | b |")
        self.assertEqual(len(found), 1)
        self.assertIn("5: the first cell is no list of quotations", found[0])

    def test_RowWithoutAFix_Read_IsFound(self):
        for row in ("| `the port is down` | a | |", "| `the port is down` | a |"):
            with self.subTest(row):
                self.assertEqual(self.read(row)[1], ["5: a row has a log line, its cause and its fix"])

    def test_ShortQuotation_Read_IsFound(self):
        self.assertEqual(self.read("| `is` | a | b |")[1],
                         ["5: `is` is too short to find a line by"])

    def test_RowsOutOfOrder_Read_AreFound(self):
        _, found = self.read("| `the port is down` | a | b |", "| `a cable fails` | a | b |")
        self.assertEqual(found, ["6: the rows of a table are in alphabetical order: move this one up"])

    def test_PartsInOrder_Matched_AreInTheLiterals(self):
        quotation = self.read("| `the port ` ... `is down` | a | b |")[0][0]
        self.assertTrue(quotation.is_in(["at last the port ", ": it is down"]))
        self.assertTrue(quotation.is_in(["the port %d is down"]))
        self.assertFalse(quotation.is_in(["it is down", "the port "]))
        self.assertFalse(quotation.is_in(["the port ", "is up"]))


if __name__ == "__main__":
    unittest.main()
