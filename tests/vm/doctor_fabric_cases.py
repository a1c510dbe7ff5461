"""The doctor's checks of ports, addresses and limits, on faults that the kernel itself shows."""

import json

from case import FEW_PACKETS, QUICK_RETRY, SCRIPTS, TOOL, Case, netem, no_netem
from cluster import Network, address, addressing
from hardware import Hardware, Switch

# Displays count as GPUs, so that both NICs are rails.
_GPUS = "export GDR_TEST_GPU_VENDOR=0x1234"
_CHECKS = ("rdma-devices", "port-state", "link-layer", "port-rate", "port-mtu",
           "roce-gids", "ip-subnets", "error-counters")
# The limit of locked memory does not count for a process that has this capability, as root does.
_WITHOUT_IPC_LOCK = "setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock"


class DoctorFabric(Case):
    """Each fault is found on its subject alone. The printed commands fix it."""
    network = Network(nics=2, mtu=4200)
    hardware = Hardware(sockets=2, cpus_per_socket=1, switches=(
        (Switch(("display", "nic")),), (Switch(("nic", "display")),)))

    def setUp(self):
        super().setUp()
        self.addCleanup(self.restore)

    def restore(self):
        self.machines[0].run("for i in 0 1; do ip link set eth$i mtu 4200 up; "
                             "ip -4 addr flush dev eth$i; done\n" + addressing(0, 0) + addressing(0, 1))

    def doctor(self, check, before=_GPUS, status=None, by=""):
        """Runs checks, whose names commas part; returns their observations. `status` is the exit status
        that the doctor must have; `by` is a program that runs it."""
        outcome = self.machines[0].run(
            f"{before}\n{by} {TOOL} doctor --json --check {check} 2>/run/tmp/doctor.log", check=False)
        if status is not None:
            self.assertEqual(outcome.status, status, outcome.output)
        checks = json.loads(outcome.output)["checks"]
        self.assertEqual({one["name"] for one in checks}, set(check.split(",")))
        return [observation for one in checks for observation in one["observations"]]

    def expect(self, check, verdict, subject, evidence, status):
        """The check must have that verdict on that subject, and find the others in order."""
        seen = self.doctor(check, status=status)
        wrong = [one for one in seen if one["verdict"] not in ("nothing", "ok")]
        self.assertEqual([(one["verdict"], one["subject"]) for one in wrong], [(verdict, subject)], seen)
        self.assertIn(evidence, wrong[0]["evidence"])
        return wrong[0]

    def expect_ok(self, check):
        seen = self.doctor(check, status=0)
        self.assertEqual([one for one in seen if one["verdict"] not in ("nothing", "ok")], [])

    def expect_steps_to_fix(self, check, observation):
        """Runs the steps, after which all is in order."""
        steps = observation["steps"]
        self.assertNotEqual(steps, [])
        self.machines[0].run("\n".join(["set -e", *(step["command"] for step in steps)]))
        self.expect_ok(check)

    def test_healthy_machine_gives_no_alarm(self):
        self.expect_ok(",".join(_CHECKS))

    def test_port_down_is_found_and_its_step_sets_it_up(self):
        self.machines[0].run("ip link set eth1 down")
        seen = self.expect("port-state", "failure", "rxe1:1", "eth1 is not set up", 1)
        self.expect_steps_to_fix("port-state", seen)

    def test_small_mtu_is_found_and_its_step_raises_it(self):
        self.machines[0].run("ip link set eth1 mtu 1500")
        seen = self.expect("port-mtu", "warning", "rxe1:1", "RDMA MTU 1024 of 4096, eth1 has MTU 1500", 0)
        self.assertIn("other rails have 4096", seen["evidence"])
        self.assertEqual(seen["steps"][0]["command"], "ip link set dev 'eth1' mtu 4200")
        self.expect_steps_to_fix("port-mtu", seen)

    def test_two_nics_in_one_subnet_are_found_and_the_steps_suit(self):
        self.machines[0].run(f"ip -4 addr flush dev eth1; ip addr add {address(7, 0)}/24 dev eth1")
        seen = self.expect("ip-subnets", "warning", "10.0.0.0/24",
                           "eth0, eth1 are in one subnet; eth0: arp_ignore 0, arp_announce 0", 0)
        self.expect_steps_to_fix("ip-subnets", seen)

    def test_interface_without_address_has_only_a_link_local_gid(self):
        self.machines[0].run("ip -4 addr flush dev eth1; ip -6 addr flush dev eth1 scope global")
        self.expect("roce-gids", "warning", "rxe1:1", "link-local", 0)

    def test_low_memory_lock_is_found(self):
        seen = self.doctor("memory-lock", before="ulimit -l 64", status=1, by=_WITHOUT_IPC_LOCK)
        self.assertEqual(seen[0]["verdict"], "failure")
        self.assertIn("64 KiB", seen[0]["evidence"])
        self.assertEqual(self.doctor("memory-lock", status=0)[0]["verdict"], "ok")

    def test_machine_without_rdma_device_fails_where_it_has_gpus(self):
        guest = self.machines[0]
        guest.run("rdma link delete rxe0; rdma link delete rxe1")
        self.addCleanup(guest.run, "for i in 0 1; do rdma link add rxe$i type rxe netdev eth$i; done")
        for gpus, verdict, status in (_GPUS, "failure", 1), ("", "unknown", 3):
            seen = self.doctor("rdma-devices", before=gpus, status=status)
            self.assertEqual([one["verdict"] for one in seen], [verdict])
            self.assertIn("no RDMA device", seen[0]["evidence"])


class DoctorCounters(Case):
    """Packets that are lost on the way between two machines."""
    count = 2
    network = Network(nics=1)

    def moving(self):
        """What the first machine's counters show of rxe0."""
        outcome = self.machines[0].run(
            f"{TOOL} doctor --json --check error-counters 2>/run/tmp/doctor.log", check=False)
        return json.loads(outcome.output)["checks"][0]["observations"][0]

    def test_lost_packets_move_the_counters(self):
        self.assertEqual(self.moving()["verdict"], "ok")
        self.addCleanup(self.on_all, no_netem(0))
        self.on_all(netem(0, "loss 1%"))
        jobs = self.start_until_stopped("--dev 0 --channels 1 --begin 64K --end 64K", FEW_PACKETS,
                                        before=QUICK_RETRY)
        self.wait_until("a counter moves", lambda: self.moving()["verdict"] == "warning", jobs)
        seen = self.moving()
        print(seen["evidence"], flush=True)
        self.stop(jobs)
        self.assertEqual(seen["subject"], "rxe0:1")


class BurnIn(Case):
    """nccl-gdr-burn-in between two machines over the kernel's verbs."""
    count = 2
    network = Network(nics=1, mtu=4200)

    # With ip_nonlocal_bind a socket can be bound to any address, which is then not the machine's own.
    def test_two_machines_measure_their_rail_and_do_not_judge_it(self):
        self.on_all("sysctl -qw net.ipv4.ip_nonlocal_bind=1")
        command = (f"GDR_TOOL={TOOL} {SCRIPTS}/nccl-gdr-burn-in remote --root {address(0, 0)} --json "
                   "2>/run/tmp/burn-in.log")
        jobs = [machine.start(f"{QUICK_RETRY}\n{command}") for machine in self.machines]
        outcomes = [job.wait(timeout=300, check=False) for job in jobs]
        logs = [machine.run("cat /run/tmp/burn-in.log").output for machine in self.machines]
        self.assertEqual([outcome.status for outcome in outcomes], [3, 3], logs)
        result, = json.loads(outcomes[0].output)["results"]
        print(result, flush=True)
        self.assertEqual(result["subject"], "rail 0 rxe0:1 <-> rxe0:1, host memory", logs)
        self.assertGreater(result["latency_us"], 0)
        self.assertIn("device of software", result["text"])
