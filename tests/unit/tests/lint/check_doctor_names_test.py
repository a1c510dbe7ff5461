import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "lint"))
import check_doctor_names  # noqa: E402


class CheckDoctorNamesTest(unittest.TestCase):

    def find(self, text):
        return list(check_doctor_names.unknown_checks("docs/a.md", text, {"pci-acs", "numa"}))

    def test_ChecksThatExist_Named_AreFine(self):
        self.assertEqual(self.find("`nccl-gdr doctor --check pci-acs`, `--check numa`\n"), [])

    def test_CheckThatDoesNotExist_Named_IsFoundWithItsLine(self):
        self.assertEqual(self.find("text\n`--check numa`, `--check acs`\n"),
                         ["docs/a.md:2: there is no check acs in tools/doctor/checks/"])

    def test_CheckLaterInAList_Named_IsFound(self):
        self.assertEqual(self.find("`nccl-gdr doctor --check numa,acs`\n"),
                         ["docs/a.md:1: there is no check acs in tools/doctor/checks/"])

    def test_CheckThatNoSymptomNames_IsFound(self):
        text = "## By symptom\n`--check numa`\n## By log line\n`--check pci-acs`\n"
        self.assertEqual(check_doctor_names.checks_without_symptom(text, {"pci-acs", "numa"}),
                         ["docs/troubleshooting.md: no symptom names the check pci-acs"])

    def test_CheckOfTheHeader_NotListed_IsFound(self):
        header = "const std::vector<Check>& all_checks();\nCheck numa();\nCheck pci_acs();\n"
        self.assertEqual(check_doctor_names.unlisted_checks(header, "      numa(),\n"),
                         ["tools/doctor/checks/checks.cc: pci_acs() of checks.h is not listed"])

    def test_OptionsOfOtherPrograms_Named_AreFine(self):
        self.assertEqual(self.find("`nccl-gdr topo --json`\n`nccl-gdr doctor --check NAME`\n"
                                   "clang-format --check here\n"), [])


if __name__ == "__main__":
    unittest.main()
