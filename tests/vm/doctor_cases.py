"""The tests of `nccl-gdr doctor` on PCI configuration space and IOMMU groups that the kernel shows."""

import json

from case import TOOL, Case
from cluster import Network
from hardware import Hardware, Switch

_SETTINGS = "export GDR_TEST_GPU_VENDOR=0x1234"

# What Linux sets in a port of a switch where an IOMMU is on: SrcValid, ReqRedir, CmpltRedir, UpstreamFwd.
_REDIRECTS = 0x1d
_KEPT = 0x11  # of these, what does not redirect


def _port_above(path):
    """The address of the port above a device with this sysfs path."""
    return path.split("/")[-2]


def _two_switches(iommu=""):
    """A display, in place of a GPU, and a NIC on each of two switches, whose ports have ACS."""
    return Hardware(sockets=2, cpus_per_socket=1, iommu=iommu, switches=(
        (Switch(("display", "nic"), port_acs=True), Switch(("nic", "display"), port_acs=True)), ()))


class _Doctor(Case):
    network = Network(nics=2)

    def setUp(self):
        super().setUp()
        nics = self.machines[0].run("for i in 0 1; do readlink -f /sys/class/net/eth$i/device/..; done"
                                    ).output.split()
        gpus = sorted(self.machines[0].run(
            "for i in $(grep -l 0x038000 /sys/bus/pci/devices/*/class); do readlink -f ${i%/class}; "
            "done").output.split())
        self.gpu_ports = [_port_above(gpu) for gpu in gpus]
        # The NIC on the switch of each GPU, and the port above it.
        self.nics = [next(number for number, nic in enumerate(nics)
                          if nic.split("/")[-3] == gpu.split("/")[-3]) for gpu in gpus]
        self.nic_ports = [_port_above(nics[number]) for number in self.nics]
        self.root_ports = [gpu.split("/")[-4] for gpu in gpus]

    def seen_by(self, check):
        """The observations of a check."""
        outcome = self.machines[0].run(f"{_SETTINGS}; {TOOL} doctor --json --check {check} 2>/dev/null",
                                       check=False)
        self.assertIn(outcome.status, (0, 1, 3), outcome.output)
        return json.loads(outcome.output)["checks"][0]["observations"]

    def redirecting_ports(self):
        """The ports that the doctor warns of, each with its evidence."""
        return {one["subject"].removeprefix("PCIe port "): one["evidence"]
                for one in self.seen_by("pci-acs") if one["steps"]}

    def set_acs(self, ports, value):
        for port in ports:
            self.machines[0].run(f"setpci -s {port} ECAP_ACS+6.w={value:x}")

    def acs_of(self, port):
        return int(self.machines[0].run(f"setpci -s {port} ECAP_ACS+6.w").output, 16)


class DoctorAcs(_Doctor):
    """Two switches on one socket, without an IOMMU, so that the kernel leaves ACS off."""
    hardware = _two_switches()

    def setUp(self):
        super().setUp()
        self.addCleanup(self.set_acs, self.gpu_ports + self.nic_ports + self.root_ports, 0)

    def test_ports_without_redirection_are_fine(self):
        self.assertEqual(self.redirecting_ports(), {})
        fine = [one["evidence"] for one in self.seen_by("pci-acs") if one["verdict"] == "ok"]
        for port in self.gpu_ports + self.nic_ports:
            self.assertIn(f"{port} 0x0000", fine[0])

    def test_port_that_redirects_is_named_with_its_pair(self):
        self.set_acs([self.nic_ports[1]], _REDIRECTS)
        found = self.redirecting_ports()
        self.assertEqual(list(found), [self.nic_ports[1]])
        self.assertIn(f"GPU1 and rxe{self.nics[1]}", found[self.nic_ports[1]])
        self.assertNotIn("GPU0", found[self.nic_ports[1]])

    def test_root_port_above_the_switch_does_not_count(self):
        self.set_acs(self.root_ports, _REDIRECTS)
        self.assertEqual(self.acs_of(self.root_ports[0]), _REDIRECTS)
        self.assertEqual(self.redirecting_ports(), {})

    def test_printed_commands_clear_the_bits_alone(self):
        ports = sorted([self.gpu_ports[0], self.nic_ports[1]])
        self.set_acs(ports + self.root_ports, _REDIRECTS)
        guest = self.machines[0]
        steps = [step["command"] for one in self.seen_by("pci-acs") for step in one["steps"]]
        guest.run("\n".join(["set -e", *steps]))
        self.assertEqual([self.acs_of(port) for port in ports], [_KEPT, _KEPT])
        self.assertEqual([self.acs_of(port) for port in self.root_ports], [_REDIRECTS, _REDIRECTS])
        self.assertEqual(self.redirecting_ports(), {})

    def test_unprivileged_user_learns_what_root_would_see(self):
        seen = self.machines[0].run(f"{_SETTINGS}; setpriv --reuid 65534 --regid 65534 --clear-groups "
                                    f"{TOOL} doctor --check pci-acs 2>/dev/null", check=False).output
        self.assertIn("run it as root", seen)
        for port in self.gpu_ports + self.nic_ports:
            self.assertIn(port, seen)

    def test_machine_without_iommu_is_fine(self):
        seen = self.seen_by("iommu")
        self.assertEqual([one["verdict"] for one in seen], ["ok"])
        self.assertIn("no IOMMU is in use", seen[0]["evidence"])


class DoctorIommuStrict(_Doctor):
    """The kernel separates IOMMU groups by redirection at every port."""
    hardware = _two_switches("translated")

    def test_translation_is_named_with_its_mode(self):
        seen = self.seen_by("iommu")
        self.assertEqual([one["verdict"] for one in seen], ["warning"])
        self.assertIn("type DMA (", seen[0]["evidence"])
        self.assertIn("intel_iommu=on iommu.strict=1", seen[0]["evidence"])
        for nic in self.nics:
            self.assertIn(f"rxe{nic} (", seen[0]["subject"])

    def test_redirection_by_the_kernel_is_named_at_every_port(self):
        self.assertEqual(sorted(self.redirecting_ports()), sorted(self.gpu_ports + self.nic_ports))


class DoctorIommuPassthrough(_Doctor):
    hardware = _two_switches("passthrough")

    def test_passthrough_is_fine(self):
        seen = self.seen_by("iommu")
        self.assertEqual([one["verdict"] for one in seen], ["ok"])
        self.assertIn("identity", seen[0]["evidence"])
        self.assertIn("iommu=pt", seen[0]["evidence"])
