"""Pipes, devices, sockets and folders in place of each file that a params file or a command can name.

`python tests/support/irregular_files.py` in an empty folder prints a line of JSON for each: the case, the
kind of file, the exit code, what was said and the processor time. A case that takes longer than `LONGEST`
ends the program.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

LONGEST = 60
"""Seconds after which a case waits for ever; the machine may be busy."""
KINDS = "pipe", "zero", "socket", "folder"
INPUT = '[run]\nsteps = 2\n[layers.n]\ntype = "input"\nshape = [2, 2, 1]\nsource = {{ {} }}\n'
UNITS = (
    '[run]\nsteps = 2\n{}\n[layers.n]\ntype = "neurons"\nshape = [1, 1, 3]\nequations = "dv/dt = -v"\n'
    'spike = "v > 1"\n{}\n[connections.c]\ntype = "sparse"\npre = "n"\npost = "n"\ntarget = "v"\n{}\n'
)
INIT = 'probability = 1.0\ninit = {{ type = "file", path = "FILE{}"{} }}'
FEW = 'probability = 1.0\ninit = { type = "constant", value = 1.0 }'
KEYS = {
    "sparse.path": UNITS.format("", "", 'path = "FILE.npz"'),
    "spike_times.path": UNITS.format(
        "", '[layers.s]\ntype = "spike_times"\nshape = [1, 1, 3]\npath = "FILE.csv"', FEW
    ),
    "init .npy": UNITS.format("", "", INIT.format(".npy", "")),
    "init .pvp": UNITS.format("", "", INIT.format(".pvp", "")),
    "init .mat": UNITS.format("", "", INIT.format(".mat", "")),
    "init .h5": UNITS.format("", "", INIT.format(".h5", ', dataset = "a"')),
    "init of a run": UNITS.format("", "", INIT.format("", ', connection = "c"')),
    "start": UNITS.format("", 'start.v = { type = "file", path = "FILE.npy" }', FEW),
    "start_from": UNITS.format('start_from = "FILE"', "", FEW),
    "plugins": 'plugins = ["FILE.py"]\n' + UNITS.format("", "", FEW),
    "sweep .csv": UNITS.format("", "", FEW) + '[sweep]\ntable = "FILE.csv"\n',
    "sweep .h5": UNITS.format("", "", FEW) + '[sweep]\ntable = "FILE.h5"\n',
    **{
        f"array {suffix}": INPUT.format(f'type = "array", file = "FILE{suffix}"{more}')
        for suffix, more in (
            (".npy", ""), (".npz", ""), (".mat", ""), (".pvp", ""), (".h5", ', dataset = "a"'),
        )
    },
    **{
        f"{kind} {suffix}": INPUT.format(f'type = "{kind}", files = "FILE{suffix}"')
        for kind, suffix in (
            ("images", ".png"), ("images", ".jpg"), ("images", ".npy"), ("images", ".txt"), ("images", "*"),
            ("video", ".mp4"), ("sound", ".wav"), ("cifar10", ".bin"), ("cifar10", ""), ("cifar100", ".bin"),
        )
    },
    "idx": INPUT.format('type = "idx", file = "FILE"'),
    "idx .gz": INPUT.format('type = "idx", file = "FILE.gz"'),
    "labels.names": INPUT.format('type = "labels", names = "FILE.txt", classes = ["a"]'),
    "labels.classes": INPUT.format('type = "labels", names = ["a"], classes = "FILE.txt"'),
}  # fmt: skip
"""Params by the key that names FILE."""
PVP = """
HyPerCol "column" = { nx = 2; ny = 2; nbatch = 1; dt = 1; stopTime = 2; };
ImageLayer "I" = {
    nxScale = 1; nyScale = 1; nf = 1; phase = 0; displayPeriod = 1; inputPath = "INPUT";
    batchMethod = "byFile"; initializeFromCheckpointFlag = true;
};
"""
COMMANDS = {
    "check": ("check", "FILE.toml"),
    "check .params": ("check", "FILE.params"),
    "run .py": ("run", "FILE.py", "--out", "out"),
    "draw": ("draw", "FILE.toml"),
    "bench": ("bench", "FILE.toml"),
    "calibration": (
        "bench", "net.toml", "--ranks", "2", "--network", "10GbE", "--calibration", "FILE.json",
    ),
    "resume": ("resume", "FILE"),
    "join": ("join", "FILE"),
    "info": ("info", "FILE.h5"),
    "verify": ("verify", "FILE"),
    "prune": ("prune", "FILE"),
    "merge": ("merge", "FILE", "-o", "merged.h5"),
    "report": ("report", "FILE.h5"),
    "plot": ("plot", "FILE.h5"),
    "plot --list": ("plot", "--list", "FILE.h5"),
    "export": ("export", "FILE", "-o", "exported"),
    "dictionary": ("encode", "FILE.npy", "net.toml", "--threshold", "0.1", "-o", "codes.h5"),
    "dictionary .h5": ("encode", "FILE.h5", "net.toml", "--threshold", "0.1", "-o", "codes.h5"),
    "images to encode": ("encode", "dictionary.npy", "FILE.npy", "--threshold", "0.1", "-o", "codes.h5"),
    "codes": ("encode", "dictionary.npy", "images.npy", "--threshold", "0.1", "-o", "FILE.h5", "--force"),
    "import": ("import", "FILE.params"),
    "import .lua": ("import", "FILE.lua"),
    "import .pvp": ("import", "FILE.pvp", "-o", "out.npy"),
    "module of Lua": ("import", "FILE_module.lua"),
    "inputPath": ("check", "FILE_net.params"),
    "checkpoint": ("import", "FILE_net.params", "--checkpoint", "FILE_checkpoint"),
}  # fmt: skip
"""Commands by what FILE is to them."""


def make(folder: Path) -> None:
    """Make the files of each kind under all suffixes, and the others that commands need."""
    import numpy as np

    os.chdir(folder)  # names of sockets are short
    names = [*KEYS.values(), *(word for command in COMMANDS.values() for word in command)]
    suffixes = {text.partition("FILE")[2].partition('"')[0].rstrip("*") for text in names if "FILE" in text}
    for suffix in (one for one in suffixes if "_" not in one):
        os.mkfifo(f"pipe{suffix}")
        os.symlink("/dev/zero", f"zero{suffix}")
        os.mkdir(f"folder{suffix}")
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"socket{suffix}")
    for kind in KINDS:
        Path(f"{kind}_module.lua").write_text(f'require "{kind}"\n')
        Path(f"{kind}_net.params").write_text(PVP.replace("INPUT", f"{kind}.png"))
        Path(f"{kind}_checkpoint").mkdir()
        Path(f"{kind}_checkpoint", "I_FrameNumbers.bin").symlink_to(Path(kind).absolute())
    Path("net.toml").write_text(UNITS.format("", "", FEW))
    np.save("dictionary.npy", np.ones((2, 2, 2, 1), np.float32))
    np.save("images.npy", np.ones((1, 4, 4, 1), np.float32))


def run(command: tuple[str, ...]) -> tuple[int, str]:
    """Run a command of petabatch in this process; return its exit code and what it printed."""
    from petabatch.cli import main

    sys.argv = ["petabatch", *command]
    printed, code = io.StringIO(), 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return code, printed.getvalue()


def main() -> None:
    """Run all cases."""
    make(Path.cwd())
    for kind in KINDS:
        for name, text in KEYS.items():
            Path("given.toml").write_text(text.replace("FILE", kind))
            said(name, kind, ("run", "given.toml", "--out", "out", "--quiet"))
        for name, command in COMMANDS.items():
            said(name, kind, tuple(word.replace("FILE", kind) for word in command))


def said(name: str, kind: str, command: tuple[str, ...]) -> None:
    """Run a command and print what it did; what takes too long is ended by a signal."""
    os.write(2, f"{name}, {kind}\n".encode())
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(LONGEST)
    begin = time.process_time()
    code, printed = run(command)
    signal.alarm(0)
    seconds = time.process_time() - begin
    os.write(1, (json.dumps([name, kind, code, printed, seconds]) + "\n").encode())


if __name__ == "__main__":
    main()
