"""Hosts as network namespaces: own addresses, names and shared memory, and links of a given rate.

All lie behind one switch, which no other network can reach. Ranks are started by `mpirun` on the first host,
through a launcher in the place of ssh.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

MPIRUN = Path(sys.executable).parent / "mpirun"
_TOOLS = ("unshare", "nsenter", "ip", "tc")
_ENTER = ("--net", "--uts", "--ipc", "--mount")
_BURST = "16kb"
"""Bytes that may pass at once: with more, the messages of small networks would not notice the rate."""


class NoHosts(Exception):
    """Hosts cannot be made here; the message says why."""


class Hosts:
    """So many hosts, named `host1` and so on, until the context ends; `rate` is that of their links."""

    def __init__(self, number: int, folder: Path, rate: str | None = None, mpirun: Path = MPIRUN) -> None:
        """`folder` is for the launcher, `rate` such as `1gbit`, `mpirun` MPICH's or Open MPI's."""
        self.names = [f"host{one}" for one in range(1, number + 1)]
        self.addresses = [f"10.77.0.{one}" for one in range(1, number + 1)]
        self.launcher = folder / "ssh"
        """What starts a command on another host."""
        self._rate, self._mpirun = rate, mpirun
        self._stack = ExitStack()
        self._holders: list[int] = []
        """Processes that hold the namespaces of the hosts, and last those of the switch."""

    def __enter__(self) -> Hosts:
        if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
            raise NoHosts(f"there is no {', no '.join(missing)} (Debian's iproute2 and util-linux)")
        with ExitStack() as stack:
            try:
                self._make(stack)
            except RuntimeError as error:
                raise NoHosts(f"namespaces with links are not to be had here: {error}") from error
            self._stack = stack.pop_all()
        self._write_launcher()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for host in range(len(self.names)):
            self.kill(host)
        self._stack.close()

    def mpirun(
        self,
        hosts: Sequence[int],
        command: Sequence[str | Path],
        folder: Path,
        ranks: int = 1,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Start a command in `folder` on the given number of ranks per host."""
        addresses = [self.addresses[host] for host in hosts]
        whole = [self._mpirun, *self._options(addresses, ranks), *command]
        return self.start(hosts[0], whole, folder, environment)

    def start(
        self,
        host: int,
        command: Sequence[str | Path],
        folder: Path,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Start a command in `folder` on one host."""
        return subprocess.Popen(
            self._inside(host, command, folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, **_ENVIRONMENT, **(environment or {})},
        )

    def on(self, host: int, command: str) -> str:
        """Return what a shell command prints on a host."""
        return _output(self._inside(host, ["sh", "-c", command]))

    def sent(self, host: int) -> int:
        """Return the bytes that a host has sent over its link."""
        told = json.loads(self.on(host, "ip -json -statistics link show dev eth0"))
        return int(told[0]["stats64"]["tx"]["bytes"])

    def cut(self, host: int) -> None:
        """Pull the plug of a host's link out of the switch; its processes stay."""
        self.on(-1, f"ip link set port{host} down")

    def kill(self, host: int) -> None:
        """Kill all processes of a host."""
        for process in self.processes(host):
            os.kill(process, signal.SIGKILL)

    def processes(self, host: int, name: str = "") -> list[int]:
        """Return the processes that run on a host, all or those with a name in their command line."""
        holder = self._holders[host]
        place, found = _network(holder), []
        for folder in Path("/proc").glob("[0-9]*"):
            process = int(folder.name)
            if process != holder and place is not None and _network(process) == place:
                found.append(process)
        return [process for process in found if name in _command(process)]

    def _make(self, stack: ExitStack) -> None:
        for name in self.names:
            made = f"mount -t tmpfs none /dev/shm && mount -t sysfs none /sys && hostname {name}"
            self._holders.append(_hold(stack, made))
        self._holders.append(_hold(stack, "ip link add switch type bridge && ip link set switch up"))
        for host in range(len(self.names)):
            self._plug_in(host)

    def _plug_in(self, host: int) -> None:
        holder, switch, port = self._holders[host], self._holders[-1], f"port{host}"
        link = ["ip", "link", "add", "eth0", "netns", str(holder), "type", "veth"]
        _output([*link, "peer", "name", port, "netns", str(switch)])
        self.on(-1, f"ip link set {port} master switch up")
        self.on(host, f"ip address add {self.addresses[host]}/24 dev eth0")
        self.on(host, "ip link set lo up && ip link set eth0 up")
        if self._rate is not None:
            limit = f"root tbf rate {self._rate} burst {_BURST} latency 50ms"
            self.on(host, f"tc qdisc add dev eth0 {limit}")
            self.on(-1, f"tc qdisc add dev {port} {limit}")

    def _inside(self, host: int, command: Sequence[str | Path], folder: Path = Path("/")) -> list[str]:
        """Return a command as run on a host, in the folder that has this name there."""
        enter = ["nsenter", "--target", str(self._holders[host]), *_ENTER, "--"]
        return [*enter, "sh", "-c", 'cd "$0" && exec "$@"', str(folder), *map(str, command)]

    def _options(self, addresses: Sequence[str], ranks: int) -> list[str]:
        launcher, total = str(self.launcher), str(ranks * len(addresses))
        slots = ",".join(f"{address}:{ranks}" for address in addresses)
        if is_open_mpi(self._mpirun):
            daemons = ["--prtemca", "plm_ssh_agent", launcher, "--prtemca", "prte_if_include", "eth0"]
            placed = ["--map-by", f"ppr:{ranks}:node:oversubscribe"]
            return [*daemons, *placed, "--host", slots, "-n", total]
        started = ["-launcher", "ssh", "-launcher-exec", launcher, "-iface", "eth0"]
        return [*started, "-hosts", slots, "-n", total]

    def _write_launcher(self) -> None:
        """Write an `ssh`: with options, an address, and a command for the shell there."""
        holders = zip(self.addresses, self._holders, strict=False)
        cases = "\n".join(f"    {address}) holder={holder} ;;" for address, holder in holders)
        self.launcher.write_text(
            "#!/bin/bash\n"
            "while getopts o:xn _; do :; done\n"
            "shift $((OPTIND - 1))\n"
            f'case $1 in\n{cases}\n    *) echo "no such host: $1" >&2; exit 255 ;;\nesac\n'
            # a host that is there refuses at once
            'timeout 2 bash -c ": < /dev/tcp/$1/22" 2> /dev/null\n[ $? -ne 124 ] || exit 255\n'
            f"shift\nexec nsenter --target $holder {' '.join(_ENTER)} -- sh -c \"cd '$PWD' && $*\"\n"
        )
        self.launcher.chmod(0o755)


_ENVIRONMENT = {
    # MPICH: ranks of one machine would talk through its memory, whatever their addresses
    "MPIR_CVAR_NOLOCAL": "1",
    "UCX_TLS": "tcp,self",
    "UCX_NET_DEVICES": "eth0",
    # Open MPI
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "tcp,self",
    "OMPI_MCA_btl_tcp_if_include": "eth0",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


def open_mpi_library(mpirun: Path) -> dict[str, str]:
    """Return what has mpi4py load the library that belongs to an Open MPI elsewhere; nothing for MPICH."""
    if not is_open_mpi(mpirun):
        return {}
    return {"MPI4PY_LIBMPI": str(next(mpirun.parents[1].glob("lib*/libmpi.so.*")))}


def is_open_mpi(mpirun: Path) -> bool:
    """Return whether a launcher is Open MPI's."""
    return "Open MPI" in _output([str(mpirun), "--version"])


def _hold(stack: ExitStack, command: str) -> int:
    """Make namespaces, run a command in them, and return a process that holds them."""
    shell = f"{command} && echo made && exec cat"  # until this process has ended
    process = stack.enter_context(
        subprocess.Popen(
            ["unshare", *_ENTER, "--propagation", "private", "sh", "-c", shell],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    )
    stack.callback(process.kill)
    assert process.stdout is not None
    assert process.stderr is not None
    if process.stdout.readline() != "made\n":
        raise RuntimeError(" ".join(process.stderr.read().split()))
    return process.pid


def _network(process: int) -> str | None:
    """Return the network namespace of a process, None if that has ended."""
    try:
        return os.readlink(f"/proc/{process}/ns/net")
    except OSError:
        return None


def _command(process: int) -> str:
    """Return the command line of a process, nothing if that has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {' '.join(done.stderr.split())}")
    return done.stdout
