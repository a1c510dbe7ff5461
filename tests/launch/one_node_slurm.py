"""A Slurm cluster of this machine alone, in a folder of its own: munged, slurmctld and slurmd.

Needs the programs of Debian's packages slurmctld, slurmd, slurm-client and munge, and no change of the
system: ports, sockets, key and state are the cluster's own. slurmd needs root.
"""

import os
import pathlib
import shutil
import socket
import subprocess
import time

_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "sinfo", "scontrol")
_DAEMON_PATH = "/usr/local/sbin:/usr/sbin:/sbin"  # often not in a user's PATH

# config_overrides: the node has the CPUs of this file, although the machine may have fewer.
_CONFIGURATION = """\
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
{more}
"""


def why_not():
    """Why no cluster can be started here, or None."""
    path = os.environ.get("PATH", "") + ":" + _DAEMON_PATH
    missing = [name for name in _PROGRAMS if shutil.which(name, path=path) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (slurmctld, slurmd, slurm-client, munge)"
    return None if os.geteuid() == 0 else "slurmd needs root"


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class OneNodeSlurm:
    """Started by `with`; `environment` is for programs that use the cluster, `more` further lines of slurm.conf."""

    def __init__(self, folder, cpus, more=""):
        self.folder = pathlib.Path(folder)
        self._daemons = []
        host = socket.gethostname().split(".")[0]
        self.folder.chmod(0o755)  # munged insists on search permission for others
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        configuration = self.folder / "slurm.conf"
        configuration.write_text(_CONFIGURATION.format(host=host, folder=self.folder, cpus=cpus,
                                                       ports=free_ports(2), more=more))
        self.environment = {**os.environ, "SLURM_CONF": str(configuration)}
        self.environment["PATH"] = os.environ.get("PATH", "") + ":" + _DAEMON_PATH

    def __enter__(self):
        try:
            self._start("munged", "--foreground", "--force",
                        *(f"--{name}={self.folder}/munge.{end}" for name, end in
                          (("key-file", "key"), ("socket", "sock"), ("pid-file", "pid"),
                           ("log-file", "log"), ("seed-file", "seed"))))
            self._wait((self.folder / "munge.sock").exists, "munged made no socket")
            self._start("slurmctld", "-D", "-i")
            self._start("slurmd", "-D")
            self._wait(lambda: self.state() == "idle", "the node did not become idle")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for daemon in reversed(self._daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def _start(self, *command):
        path = self.environment["PATH"]
        with open(self.folder / f"{command[0]}.out", "wb") as log:
            self._daemons.append(subprocess.Popen(
                [shutil.which(command[0], path=path), *command[1:]], env=self.environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT))

    def state(self):
        done = subprocess.run(["sinfo", "--noheader", "--format=%t"], env=self.environment,
                              capture_output=True, text=True, check=False)
        return done.stdout.strip()

    def _wait(self, condition, failure):
        deadline = time.monotonic() + 60
        while not condition():
            if time.monotonic() > deadline:
                logs = "\n".join(f"{log.name}: {log.read_text(errors='replace')[-1500:]}"
                                 for log in sorted(self.folder.glob("*.out")))
                raise RuntimeError(f"{failure}\n{logs}")
            time.sleep(0.2)
