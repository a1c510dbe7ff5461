import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "lint"))
import check_warnings  # noqa: E402
from log_line_tables import Quotation  # noqa: E402


class CheckWarningsTest(unittest.TestCase):

    def warned(self, text, name="transport/some.cc"):
        """The literals of the statements of a source that are warnings."""
        return [one.literals for one in check_warnings.warnings(name, text)]

    def test_ReportOfTwoWords_Read_IsAWarning(self):
        for statement in ('GDR_WARN("%d failed: timed out", port)',
                          'return fail(Code::kSystem, "timed out")',
                          'return fail_errno(Code::kSystem, "opening " + name + " failed", errno)',
                          'link->fail_link(Error{Code::kRemote, "timed out"}, true)',
                          'connection_.fail(code, "timed out")',
                          'fail_protocol("timed out")',
                          'watcher.warn_once(cause, port + " timed out")',
                          'findings->push_back({Severity::kWarning, "", "timed out", ""})',
                          'return Finding{Severity::kError, name, "timed out", ""}'):
            with self.subTest(statement):
                self.assertEqual(len(self.warned(f"void f() {{\n  {statement};\n}}\n")), 1)
        self.assertEqual(self.warned('void f() {\n  name = "timed out";\n}\n'), [])

    def test_LinesAtInfo_Read_AreNoWarnings(self):
        for statement in ('GDR_INFO(log::kNet, "the port %d is down", port)',
                          'GDR_TRACE(log::kNet, "the port %d is down", port)',
                          'return {Severity::kInfo, "", "the port is down", ""}',
                          'return fail(Code::kDeclined, "the port is down")'):
            with self.subTest(statement):
                self.assertEqual(self.warned(f"void f() {{\n  {statement};\n}}\n"), [])

    def test_SentenceThatIsPrintedElsewhere_Read_IsAWarning(self):
        text = "std::string loss_of(int rail) {\n  return name + %s;\n}\n"
        self.assertEqual(self.warned(text % '" is lost for good now"'), [[" is lost for good now"]])
        self.assertEqual(self.warned("constexpr char kLoss[] =\n    \"it is lost for good\";\n"),
                         [["it is lost for good"]])
        for piece in ('" and then"', '"/sys/class/infiniband_verbs"', '"%s: %s (%d) %s %zu"'):
            with self.subTest(piece):
                self.assertEqual(self.warned(text % piece), [])

    def test_FunctionThatIsListed_Read_HasNoWarnings(self):
        text = 'std::string counts_text() {\n  return "it is lost for good";\n}\n'
        self.assertEqual(self.warned(text, "transport/memory/registrar.cc"), [])
        self.assertEqual(len(self.warned(text)), 1)

    def test_NewWarning_Checked_IsReportedWithWhatToAdd(self):
        text = 'void f() {\n  GDR_WARN("%s: the port is down. Fix: see dmesg", name);\n}\n'
        self.assertEqual(
            list(check_warnings.undocumented("transport/some.cc", text, [])),
            ["transport/some.cc:2: this warning is missing in docs/troubleshooting.md: add a row to one "
             "of its tables: | `the port is down` | cause | fix |. Where it is never printed at WARN, list f "
             "in _NOT_WARNED of tests/lint/check_warnings.py"])

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

    def test_ListedFunctionThatIsGone_Checked_IsReported(self):
        names = {name for files in check_warnings._NOT_WARNED.values() for name in files}
        sources = {name: (check_warnings.ROOT / name).read_text(encoding="utf-8") for name in names}
        self.assertEqual(list(check_warnings.missing_functions(sources)), [])
        sources["transport/memory/registrar.cc"] = ""
        self.assertEqual(len(list(check_warnings.missing_functions(sources))), 2)


if __name__ == "__main__":
    unittest.main()
