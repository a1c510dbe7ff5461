import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "lint"))
import check_warnings  # noqa: E402
from log_line_tables import Quotation  # noqa: E402


class CheckWarningsTest(unittest.TestCase):

    def warned(self, text, name="transport/some.cc"):
        """The literals of the statements of a source that are warnings."""
        return [one.literals for one in check_warnings.warnings(name, text)[0]]

    def test_FormsOfAWarning_Read_AreFound(self):
        for statement in ('GDR_WARN("the port %d is down", port)',
                          'return fail(Code::kSystem, "the port is down")',
                          'return fail_errno(Code::kSystem, "the port " + name + " is down", errno)',
                          'link->fail_link(Error{Code::kRemote, "the port is down"}, true)',
                          'connection_.fail(code, "the port is down")',
                          'fail_protocol("the port is down")',
                          'watcher.warn_once(cause, "the port is down" + why)',
                          'findings->push_back({Severity::kWarning, "", "the port is down", ""})',
                          'return Finding{Severity::kError, name, "the port is down", ""}'):
            with self.subTest(statement):
                self.assertEqual(len(self.warned(f"void f() {{\n  {statement};\n}}\n")), 1)

    def test_LinesAtInfo_Read_AreNoWarnings(self):
        for statement in ('GDR_INFO(log::kNet, "the port %d is down", port)',
                          'GDR_TRACE(log::kNet, "the port %d is down", port)',
                          'return {Severity::kInfo, "", "the port is down", ""}',
                          'return fail(Code::kDeclined, "the port is down")',
                          'name = "the port is down"'):
            with self.subTest(statement):
                self.assertEqual(self.warned(f"void f() {{\n  {statement};\n}}\n"), [])

    def test_TextFunction_Read_IsAWarningWhereItHasASentence(self):
        text = 'std::string loss_text() {\n  return name + %s;\n}\n'
        self.assertEqual(self.warned(text % '" is lost for good now"'), [[" is lost for good now"]])
        self.assertEqual(self.warned(text % '" and then"'), [])

    def test_WarningWithoutWords_Read_HasThoseOfItsFunction(self):
        text = ('void f() {\n  std::string text = "the port is down";\n'
                '  GDR_WARN("%s", text.c_str());\n}\n'
                'void g() {\n  name = "something else again";\n}\n')
        self.assertEqual(self.warned(text), [["the port is down"]])

    def test_WarningWithoutWordsAnywhere_Read_IsUnknown(self):
        text = 'void f(const char* text) {\n  GDR_WARN("%s", text);\n}\n'
        found = list(check_warnings.undocumented("transport/some.cc", text, []))
        self.assertEqual(len(found), 1)
        self.assertIn("transport/some.cc:2: the text that f() reports is made elsewhere", found[0])

    def test_ErrorThatIsPassedOn_Read_IsKnown(self):
        text = 'void f() {\n  GDR_WARN("%s: %s", call, result.error().text.c_str());\n}\n'
        self.assertEqual(check_warnings.warnings("transport/some.cc", text), ([], []))

    def test_NewWarning_Checked_IsReportedWithWhatToAdd(self):
        text = 'void f() {\n  GDR_WARN("%s: the port is down. Fix: see dmesg", name);\n}\n'
        self.assertEqual(
            list(check_warnings.undocumented("transport/some.cc", text, [])),
            ["transport/some.cc:2: this warning is missing in docs/troubleshooting.md: add a row to one "
             "of its tables: | `: the port is down` | cause | fix |"])

    def test_DocumentedWarning_Checked_IsFine(self):
        text = 'void f() {\n  GDR_WARN("%s: the port is down", name);\n}\n'
        quotation = Quotation(1, ("the port is down",), "")
        self.assertEqual(list(check_warnings.undocumented("transport/some.cc", text, [quotation])), [])

    def test_WarningThatIsDocumentedAsInfo_Checked_IsReported(self):
        text = 'void f() {\n  GDR_WARN("%s: the port is down", name);\n}\n'
        quotation = Quotation(1, ("the port is down",), "INFO")
        found = list(check_warnings.undocumented("transport/some.cc", text, [quotation]))
        self.assertEqual(len(found), 1)

    def test_QuotationThatNoSourcePrints_Checked_IsReported(self):
        every = [["the port ", " is up"]]
        self.assertEqual(
            list(check_warnings.outdated([Quotation(7, ("the port ", " is down"), "")], every)),
            ["docs/troubleshooting.md:7: no source prints `the port ` ... ` is down` any more"])
        self.assertEqual(list(check_warnings.outdated([Quotation(7, ("is up",), "")], every)), [])
        self.assertEqual(list(check_warnings.outdated([Quotation(7, ("x",), "not ours")], every)), [])

    def test_TheTree_Listed_HasWarningsOfEachForm(self):
        text = (check_warnings.ROOT / "base/finding.cc").read_text(encoding="utf-8")
        self.assertEqual(check_warnings.warnings("base/finding.cc", text), ([], []))
        text = (check_warnings.ROOT / "plugin/guarded.cc").read_text(encoding="utf-8")
        self.assertEqual(len(check_warnings.warnings("plugin/guarded.cc", text)[0]), 3)


if __name__ == "__main__":
    unittest.main()
