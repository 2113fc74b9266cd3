"""A job array of SLURM on this host: 20 chunks of a sweep; one is preempted and two are killed.

    python tests/support/slurm_array.py [FOLDER]

Needs root, Debian's packages slurmctld, slurmd, slurm-client and munge, and a running munged. A cluster of
this host is started in FOLDER, by default a temporary one, and ended. The jobs that were killed are submitted
again; the one that was preempted is started again by SLURM. Joined, the points have the bits of one run.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from petabatch import results  # noqa: E402
from petabatch.waves.run import join  # noqa: E402
from support.commands import set_all  # noqa: E402
from support.kills_in_waves import NETWORK, recorded  # noqa: E402

CHUNKS, KILLED, POINTS = 20, (5, 13), 60_000
SETTINGS = (
    "run.batch=1", "run.display=2000", "run.displays=1", "sweep.wave=10", f"sweep.draws={POINTS}",
    "sweep.layers.E.parameters.input={low=0.0, high=2.8}", "layers.E.parameters.input=0.0",
    "sweep.layers.I.parameters.input={low=-1.0, high=2.5}", "layers.I.parameters.input=0.0",
    "output.layers={E={}, I={}}",
)  # fmt: skip
CONFIGURATION = """
ClusterName=local
SlurmctldHost={host}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldPort=16817
SlurmdPort=16818
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName={host} CPUs={cores} State=UNKNOWN
PartitionName=low Nodes={host} Default=YES PriorityTier=1 PreemptMode=REQUEUE State=UP
PartitionName=high Nodes={host} PriorityTier=10 PreemptMode=OFF State=UP
"""
JOB = """#!/bin/bash
#SBATCH --requeue --open-mode=append --output={folder}/job_%a.txt
{run}
"""


def called(*command: object) -> str:
    """Return what a command prints; raises CalledProcessError."""
    return subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stdout


def submitted(folder: Path, name: str, run: str, *options: str) -> str:
    """Return the number of a job that was submitted."""
    script = folder / f"{name}.sh"
    script.write_text(JOB.format(folder=folder, run=run))
    return called("sbatch", "--parsable", *options, script).strip()


def wait_for(partition: str) -> None:
    """Wait until no job of a partition waits or runs."""
    while called("squeue", "-h", "-p", partition):
        time.sleep(0.5)


def jobs_of(command: str, folder: Path) -> str:
    """Run the array with its mishaps; return what was seen of them."""
    first = " || ".join(f"[ $SLURM_ARRAY_TASK_ID = {chunk} ]" for chunk in KILLED)
    killed = f"if {first}; then exec timeout -s KILL 2 {command}; fi\nexec {command}"
    submitted(folder, "array", killed, f"--array=1-{CHUNKS}", "-c1")
    while not list((folder / "runs").glob("points/*.h5")):
        time.sleep(0.1)
    submitted(folder, "urgent", "sleep 5", "-p", "high", "-c1")
    wait_for("low")
    wait_for("high")
    seen = [one for one in folder.glob("job_*.txt") if "PREEMPTION" in one.read_text()]
    before = str(join(folder / "runs"))
    again = ",".join(map(str, KILLED))
    submitted(folder, "again", command, f"--array={again}", "-c1")
    wait_for("low")
    return f"{len(seen)} preempted, {len(KILLED)} killed, which left {before}"


def campaign(folder: Path) -> str:
    """Return what was compared; raises AssertionError where something differs."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    configuration = folder / "slurm.conf"
    text = CONFIGURATION.format(host=platform.node().split(".")[0], folder=folder, cores=os.cpu_count())
    configuration.write_text(text)
    os.environ["SLURM_CONF"] = str(configuration)
    petabatch = f"{sys.executable} -m petabatch run {NETWORK} --threads 1 -q"
    settings = " ".join(f"'{text}'" for text in set_all(*SETTINGS))
    servers = [subprocess.Popen([name, "-D", "-f", configuration]) for name in ("slurmctld", "slurmd")]
    try:
        while "idle" not in called("sinfo", "-h", "-o", "%t"):
            time.sleep(0.5)
        whole = f"--chunk auto/{CHUNKS} --out {folder}/runs"
        seen = jobs_of(f"{petabatch} {settings} {whole}", folder)
    finally:
        for server in reversed(servers):
            server.terminate()
            server.wait()
    joined = str(join(folder / "runs"))
    assert joined == f"{POINTS:,} of {POINTS:,} points", joined
    subprocess.run(f"{petabatch} {settings} --out {folder}/whole", shell=True, check=True)
    with results.open(folder / "whole") as run:
        assert run.status == "done"
    assert recorded(folder / "runs") == recorded(folder / "whole")
    return f"{CHUNKS} chunks: {seen}; then {joined}, all bits of one run"


if __name__ == "__main__":
    if sys.argv[1:]:
        print(campaign(Path(sys.argv[1])))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            print(campaign(Path(temporary)))
