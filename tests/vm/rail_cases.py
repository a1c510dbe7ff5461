"""Two machines with two rails each, one of which is lost in the middle of an all-reduce."""

import re
import time

from case import FEW_PACKETS, PACKETS, Case
from cluster import Network, addressing

# The handshake, its kept sockets and the ranks' own sockets are on the rail that stays.
_LOST, _KEPT = 0, 1
_RAIL = rf"rxe{_LOST}:1 <-> [ab] rxe{_LOST}:1"


class TwoRails(Case):
    count = 2
    network = Network(nics=2, mtu=4200)
    root_nic = _KEPT

    def setUp(self):
        super().setUp()
        self.addCleanup(self.on_all, f"ip link set eth{_LOST} up")

    def start(self, device):
        return self.start_until_stopped(
            f"--dev {device} --channels 1 --begin 2M --end 2M", FEW_PACKETS,
            before=f"export NCCL_SOCKET_IFNAME==eth{_KEPT} NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=NET")

    def packets_over_lost(self):
        return [machine.run(f"cat {PACKETS.format(_LOST)}").output for machine in self.machines]

    def flap(self, jobs, machine):
        """Sets the link of a machine down and up. Meanwhile the data goes over the other rail."""
        def seen(text):
            return [len(re.findall(text, job.output())) for job in jobs]

        def wait_for(text, before):
            self.wait_until(text, lambda: all(now > then for now, then in zip(seen(text), before)),
                            jobs)

        lost, returned = f"{_RAIL} is lost", f"{_RAIL}: the rail is used again"
        before = seen(lost), seen(returned)
        self.wait_for_traffic(_LOST)
        down = time.monotonic()
        self.machines[machine].run(f"ip link set eth{_LOST} down")
        wait_for(lost, before[0])
        noticed = time.monotonic() - down
        idle = self.packets_over_lost()
        self.wait_for_traffic(_KEPT)
        self.assertEqual(self.packets_over_lost(), idle)
        up = time.monotonic()
        self.machines[machine].run(f"ip link set eth{_LOST} up\n{addressing(machine, _LOST)}")
        wait_for(returned, before[1])
        print(f"link of machine {machine}: noticed after {noticed:.1f} s, used again after "
              f"{time.monotonic() - up:.1f} s", flush=True)
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

    def test_link_down_with_a_standby_rail_moves_the_data(self):
        self.expect_only_moved("0", (1,))
