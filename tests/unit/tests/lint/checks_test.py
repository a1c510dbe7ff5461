"""What the checks of this tree find, as tables of cases."""

import pathlib
import tempfile
import unittest

import paths  # noqa: F401  (sets the module path)
import check_classes
import check_doctor_names
import check_layers
import check_links
import check_mirror
import check_words
import line_budget
from compare_nccl_variables import listed, names_read


class WordsTest(unittest.TestCase):

    def test_RetiredWords_AreFoundWithLineAndAdvice(self):
        self.assertEqual(check_words.findings("a.cc", "// A port.\n// The user can mend it.\n"),
                         ["a.cc:2: 'mend': write fix"])
        for name, text, count in (
                ("a.cc", "bool isToldOf();", 1), ("a.cc", "int stand_in_count; class StandInPool;", 2),
                ("a.cc", 'root["not_rails"]', 1), ("transport/stand_in.h", "", 1),
                ("a.cc", 'printf("Mend: load the module");', 1), ("a.cc", "// Registers the buffer.\n", 0),
                # Allowed meanings, a former name, and parts of other words.
                ("a.cc", "// Requests in flight overlap; a laptop collapses.", 0),
                ("a.md", "- `findings` (was `complaints`).", 0), ("a.cc", "// amendment, tellurium, aside", 0)):
            with self.subTest(text or name):
                self.assertEqual(len(check_words.findings(name, text)), count)


class DoctorNamesTest(unittest.TestCase):

    def test_ChecksThatDoNotExist_AreFoundWithTheirLine(self):
        for text, found in (
                ("`nccl-gdr doctor --check pci-acs`, `--check numa`\n", []),
                ("`nccl-gdr topo --json`\n`nccl-gdr doctor --check NAME`\nclang-format --check here\n", []),
                ("text\n`--check numa`, `--check acs`\n", ["docs/a.md:2: there is no check acs in "]),
                ("`nccl-gdr doctor --check numa,acs`\n", ["docs/a.md:1: there is no check acs in "])):
            unknown = check_doctor_names.unknown_checks("docs/a.md", text, {"pci-acs", "numa"})
            self.assertEqual([line.removesuffix("tools/doctor/checks/") for line in unknown], found)

    def test_ChecksThatNoSymptomNamesOrThatAreNotListed_AreFound(self):
        text = "## By symptom\n`--check numa`\n## By log line\n`--check pci-acs`\n"
        self.assertEqual(check_doctor_names.checks_without_symptom(text, {"pci-acs", "numa"}),
                         ["docs/troubleshooting.md: no symptom names the check pci-acs"])
        header = "Observations run_numa(const Host& host);\nObservations run_pci_acs(const Host& host);\n"
        self.assertEqual(check_doctor_names.unlisted_checks(header, "       .run = run_numa},\n"),
                         ["tools/doctor/checks/checks.cc: run_pci_acs() of checks.h is not listed"])

    def test_KindsAndRowsWithoutOneAnother_AreFound(self):
        acs, bar = 'GDR_FINDING_KIND(kAcs, "acs")  // text\n', 'GDR_FINDING_KIND(kBar, "bar")\n'
        table, row = "| kind | what it means |\n|---|---|\n", "| `acs` | x |\n"
        for definitions, document, expected in (
                (acs, table + row, []),
                (acs + bar, table + row + "\n" + table + "| `bar` | x |\n", []),
                (acs + bar, table + row + "\n| `bar` | not of a table |\n", ["bar has 0"]),
                (acs, table + row + row, ["acs has 2"]), (acs, table + row + "| `ats` | x |\n", ["no kind ats"]),
                (acs.replace('"acs"', '"Acs_"'), table + "| `Acs_` | x |\n", ["not lower case"]),
                ("", "", ["has no kinds"])):
            with self.subTest(document=document):
                found = list(check_doctor_names.faults_of_kinds(definitions, document))
                self.assertEqual(len(found), len(expected), found)
                for line, part in zip(found, expected):
                    self.assertIn(part, line)


class LineBudgetTest(unittest.TestCase):

    def test_Rows_HaveTheLinesOfTheirFoldersAndDocuments(self):
        page = ("## The budget\n\n| part | lines |\n|---|--:|\n| base, plugin | 36,000 |\n"
                "| tests (C++, data) | 730 |\n| docs, README | 9,000 |\n| all | 160,000 |\n\n`./run test`\n")
        lines = {"base/log.cc": 1, "plugin/config/options.def": 2, "tests/data.xml": 4, "docs/plugin.md": 8,
                 "README.md": 16, "run": 32}
        self.assertEqual([(part, budget, line_budget.lines_of(part, lines)) for part, budget in line_budget.rows(page)],
                         [("base, plugin", 36000, 3), ("tests (C++, data)", 730, 4),
                          ("docs, README", 9000, 24), ("all", 160000, 63)])


class LinksTest(unittest.TestCase):

    def test_Links_ThatLeadToNothing_AreFoundWithTheirLine(self):
        with tempfile.TemporaryDirectory(prefix="links test ") as folder:
            root = pathlib.Path(folder).resolve()
            (root / "docs").mkdir()
            (root / "base").mkdir()
            (root / "base/log.h").touch()
            (root / "docs/b.md").write_text("# B\n\n## The `x`, [y](z) & more\n")
            for text, found in (
                    ("[b](b.md), [up](../base/log.h), [x](b.md#the-x-y--more)\n## Here\n[here](#here)", []),
                    ("[web](https://example.org/none), `/sys/module`, `base/*_test.cc`, `base/<name>.h`", []),
                    ("`base/log.h`, `base/log`, `base/`, `docs/b.md --option`, `build/lib/x.so`", []),
                    ("text\n[c](c.md)", ["docs/a.md:2: link to c.md: no such file"]),
                    ("[b](b.md#nothing)", ["docs/a.md:1: link to b.md#nothing: no such heading"]),
                    ("`base/gone.h`", ["docs/a.md:1: path base/gone.h: no such file"]),
                    ("```\n[c](c.md)\n```\n[c](d.md)", ["docs/a.md:4: link to d.md: no such file"])):
                with self.subTest(text):
                    (root / "docs/a.md").write_text(text)
                    self.assertEqual(check_links.findings("docs/a.md", {"base", "docs"}, root),
                                     found)


class ClassesTest(unittest.TestCase):

    def test_Methods_AreCountedByClass(self):
        text = """
            enum class Kind : int { kOne = one(), kTwo };
            struct Options { std::function<bool(int)> call = nullptr; int (*open)(int); int x = f(); };
            class A final : public B {
             public:
              A(const A&) = delete;
              explicit A(int x) : x_(x) {}
              [[gnu::cold]] Result<std::pair<int, int>> ask(std::function<void()> f) const;
              bool operator==(const A&) const = default;
             private:
              struct Part { void run(); };
              template <class T> void each(T call) { for (int i = 0; i < x_; ++i) call(i); }
              int x_ = 0;  // not(a method);
            };"""
        self.assertEqual(check_classes.methods(text), {"Options": 0, "A": 4, "Part": 1})
        self.assertEqual(check_classes.defined("Result<int> A::ask(int x) {\n  B::run(x);\n}\nA::A() {}\n"), {"A"})

    def test_ClassesAboveTheirLimit_AndRowsThatCouldBeLower_AreFound(self):
        for classes, still_above, count in (
                ({("x", "A"): (30, 2)}, {}, 0), ({("x", "A"): (31, 3)}, {}, 2),
                ({("x", "A"): (40, 2)}, {("x", "A"): (40, 2)}, 0), ({("x", "A"): (41, 2)}, {("x", "A"): (40, 2)}, 1),
                ({("x", "A"): (39, 1)}, {("x", "A"): (40, 2)}, 1), ({}, {("x", "A"): (40, 2)}, 1)):
            self.assertEqual(len(list(check_classes.findings(classes, still_above))), count, classes)


class MirrorTest(unittest.TestCase):

    def test_TestsWithoutACounterpart_AreFound(self):
        names = ["tests/unit/transport/data/rail_test.cc", "tests/unit/select/cidr_test.cc",
                 "tests/unit/run_test.py", "tests/unit/other/helper.h"]
        found = list(check_mirror.unmirrored(names, {pathlib.Path("transport/data"), pathlib.Path("transport")}))
        self.assertEqual([line.split(" ")[0] for line in found], ["tests/unit/select"])

    def test_PathsOutsideTheCheckout_AreFound(self):
        for line, count in (('set(x "${PROJECT_SOURCE_DIR}/../other")', 1), ('open("../shared/a.xml")', 1),
                            ('read("/home/me/machine.xml")', 1), ('open("/proc/self/status")', 0),
                            ('set(x "${PROJECT_SOURCE_DIR}/tests/topologies")', 0),
                            ('#include "tests/fakes/verbs/fake_verbs.h"', 0), ('run("/no/such/file.so")', 0)):
            self.assertEqual(len(list(check_mirror.leaving("a.cc", line))), count, line)


class LayersTest(unittest.TestCase):

    def test_Includes_ThatPointUpOrInCircles_AreFound(self):
        for files, found in (
                ({}, []),  # the table itself is in order
                ({"topology/rails.h": ["base/result.h", "topology/model.h"], "topology/model.h": ["base/result.h"]}, []),
                ({"base/a.cc": ["base/a.h"], "base/a.h": []}, []),
                ({"base/result.h": ["transport/data/rail.h"]},
                 ["base/result.h includes transport/data/rail.h: base may not use transport/data"]),
                ({"base/log.cc": ["tests/fakes/fake.h"]},
                 ["base/log.cc includes tests/fakes/fake.h, which is in no folder that base may use"]),
                ({"base/a.h": ["base/b.h"], "base/b.h": ["base/c.h"], "base/c.cc": ["base/a.h"]},
                 ["circle of includes: base/a -> base/b -> base/c -> base/a"])):
            with self.subTest(files), tempfile.TemporaryDirectory(prefix="layers test ") as folder:
                for name, included in files.items():
                    path = pathlib.Path(folder) / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text("".join(f'#include "{other}"\n' for other in included))
                self.assertEqual(check_layers.findings(pathlib.Path(folder)),
                                 (found, sum(map(len, files.values()))))


class NcclVariablesTest(unittest.TestCase):

    def test_VariablesOfTheTransport_AreRead(self):
        for text, names in (
                ('NCCL_PARAM(IbTimeout, "IB_TIMEOUT", 20)\nncclGetEnv("NCCL_IB_HCA");', {"NCCL_IB_TIMEOUT", "NCCL_IB_HCA"}),
                ('getenv("NCCL_IBVERBS_LIB")', {"NCCL_IBVERBS_LIB"}),
                ('NCCL_PARAM(IbTc,\n           "IB_TC", -1)', {"NCCL_IB_TC"}),
                ('NCCL_PARAM(GinIbTc, "GIN_IB_TC", -1) ncclGetEnv("NCCL_DEBUG") WARN("NCCL_IB_FOO is set")', set())):
            self.assertEqual(names_read(text), names)
        self.assertEqual(listed("# a list\nNCCL_IB_TC 2.20.3 2.30.7 src/a.cc\n"), {"NCCL_IB_TC"})


if __name__ == "__main__":
    unittest.main()
