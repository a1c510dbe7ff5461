"""Two machines with two rails each, one of which is lost in the middle of an all-reduce."""

import re
import time

from case import FEW_PACKETS, PACKETS, Case
from cluster import Network, addressing

# The handshake, its kept sockets and the ranks' own sockets are on the rail that stays.
_LOST, _KEPT = 0, 1
_RAIL = rf"rxe{_LOST}:1 <-> [ab] rxe{_LOST}:1"
_IS_LOST, _RETURNED = f"{_RAIL} is lost", f"{_RAIL}: the rail is used again"
_PROBE_FAILED = f"{_RAIL} is not usable again yet: the probe of "
_UP = f"ip link set eth{_LOST} up"

# As a switch with a smaller MTU: drops what arrives in packets of 1024 bytes or more, by the highest bit of their length.
_SMALL_PACKETS_ONLY = f"tc qdisc add dev eth{_LOST} ingress\n" + "".join(
    f"tc filter add dev eth{_LOST} ingress protocol ip u32 match u16 {bit:#x} {-bit & 0xffff:#x} at 2 action drop\n"
    for bit in (1 << 12, 1 << 11, 1 << 10))


class TwoRails(Case):
    count = 2
    network = Network(nics=2, mtu=4200)
    root_nic = _KEPT

    def setUp(self):
        super().setUp()
        self.addCleanup(self.on_all, _UP)

    def start(self, device, settings=""):
        return self.start_until_stopped(
            f"--dev {device} --channels 1 --begin 2M --end 2M", FEW_PACKETS,
            before=f"export NCCL_SOCKET_IFNAME==eth{_KEPT} NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=NET {settings}")

    def packets_over_lost(self):
        return [machine.run(f"cat {PACKETS.format(_LOST)}").output for machine in self.machines]

    def seen(self, text, jobs):
        return [len(re.findall(text, job.output())) for job in jobs]

    def wait_for_more(self, text, before, jobs):
        self.wait_until(text, lambda: all(now > then for now, then in zip(self.seen(text, jobs), before)), jobs)

    def flap(self, jobs, machine, up=None):
        """Sets the link of a machine down and up. Meanwhile the data goes over the other rail."""
        before = self.seen(_IS_LOST, jobs), self.seen(_RETURNED, jobs)
        self.wait_for_traffic(_LOST)
        down = time.monotonic()
        self.machines[machine].run(f"ip link set eth{_LOST} down")
        self.wait_for_more(_IS_LOST, before[0], jobs)
        noticed = time.monotonic() - down
        idle = self.packets_over_lost()
        self.wait_for_traffic(_KEPT)
        self.assertEqual(self.packets_over_lost(), idle)
        began = time.monotonic()
        self.machines[machine].run(up or f"{_UP}\n{addressing(machine, _LOST)}")
        self.wait_for_more(_RETURNED, before[1], jobs)
        print(f"link of machine {machine}: noticed after {noticed:.1f} s, used again after "
              f"{time.monotonic() - began:.1f} s", flush=True)
        self.wait_for_traffic(_LOST)

    def expect_only_moved(self, device, machines):
        """The links of these machines go down and up in turn, under one job."""
        jobs = self.start(device)
        for machine in machines:
            self.flap(jobs, machine)
        for output in self.stop(jobs):
            # What an emulated machine sends may be late on either rail while others take its processors.
            warnings = [text for text in re.findall("NCCL WARN NET/GDR : (.*)", output)
                        if " is avoided: its data is late again and again" not in text]
            self.assertNotEqual(warnings, [])
            for warning in warnings:
                self.assertRegex(warning, f"^{_RAIL} is lost: ")

    def test_link_down_under_a_merged_device_moves_its_data(self):
        self.expect_only_moved("0+1", (0, 1))

    def test_address_changed_while_the_link_is_down(self):
        self.addCleanup(self.machines[0].run, f"ip addr flush dev eth{_LOST}\n{addressing(0, _LOST)}")
        jobs = self.start("0+1")
        self.flap(jobs, 0, f"ip addr flush dev eth{_LOST}\nip addr add 10.0.{_LOST}.99/24 dev eth{_LOST}\n{_UP}")
        for output in self.stop(jobs):
            self.assertRegex(output, "NCCL WARN NET/GDR : .* is lost: ")

    def test_rail_that_drops_large_packets_returns_once_they_come_through(self):
        self.addCleanup(self.on_all, f"tc qdisc del dev eth{_LOST} ingress 2>&- || true")
        # Shorter than NCCL's timeouts, but longer than a busy host holds a machine up.
        jobs = self.start("0+1", "NCCL_IB_TIMEOUT=17 NCCL_IB_RETRY_CNT=3")
        self.wait_for_traffic(_LOST)
        self.on_all(_SMALL_PACKETS_ONLY)
        self.wait_until("a probe failed", lambda: any(self.seen(_PROBE_FAILED, jobs)), jobs)
        returned = self.seen(_RETURNED, jobs)
        for _ in range(5):  # at least as many seconds, in which it is tried again
            self.wait_for_traffic(_KEPT)
            time.sleep(1)
        self.assertEqual(self.seen(_RETURNED, jobs), returned)
        self.on_all(f"tc qdisc del dev eth{_LOST} ingress")
        self.wait_for_more(_RETURNED, returned, jobs)
        self.wait_for_traffic(_LOST)
        self.stop(jobs)

    def test_link_down_with_a_standby_rail_moves_the_data(self):
        self.expect_only_moved("0", (1,))
