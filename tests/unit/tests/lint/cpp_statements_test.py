import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "lint"))
import cpp_statements  # noqa: E402


class CppStatementsTest(unittest.TestCase):

    def read(self, text):
        """(line, owner, literals) of each statement that has literals."""
        return [(one.line, one.owner, one.literals) for one in cpp_statements.statements(text)
                if one.literals]

    def test_AdjacentLiterals_Read_AreOne(self):
        self.assertEqual(self.read('void f() {\n  log("a b "\n      "c" + x + "d");\n}\n'),
                         [(2, "f", ["a b c", "d"])])

    def test_CommentsIncludesAndCharacters_Read_AreSkipped(self):
        self.assertEqual(self.read('#include "a.h"\n// "b"\n/* "c" */\nint x = \'"\';\n'), [])

    def test_EscapesAndRawLiterals_Read_HaveTheirMeaning(self):
        self.assertEqual(self.read('auto x = "a \\"b\\"\\n";\nauto y = R"(c \\n)";\n'),
                         [(1, "", ['a "b"\n']), (2, "", ["c \\n"])])

    def test_FunctionsAroundStatements_Read_AreTheirOwners(self):
        text = ('namespace a {\n'
                'class B {\n  std::string own_text() const { return "1"; }\n};\n'
                'B::B(int x) : x_(x) { log("2"); }\n'
                'Status B::run(int a,\n              int b) {\n'
                '  if (a == b) {\n    each([&](int c) { log("3"); });\n  }\n  return fail("4");\n}\n'
                '}\n')
        self.assertEqual([(owner, literals[0]) for _, owner, literals in self.read(text)],
                         [("own_text", "1"), ("B", "2"), ("run", "3"), ("run", "4")])

    def test_Constant_Read_IsTheOwnerOfItsText(self):
        self.assertEqual(self.read('constexpr char kText[] =\n    "a "\n    "b";\n'),
                         [(2, "kText", ["a b"])])

    def test_BracesBehindAType_Read_BeginAStatementWithItsName(self):
        found = [one.code for one in cpp_statements.statements('void f() { g(Error{code, "x"}); }')
                 if one.literals]
        self.assertEqual(found, ['Error{ code, ""'])


if __name__ == "__main__":
    unittest.main()
