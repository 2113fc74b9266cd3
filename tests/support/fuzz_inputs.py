"""Fuzzing of every reader of input files, for a given time each.

    python tests/support/fuzz_inputs.py --seconds 600
    python tests/support/fuzz_inputs.py --seconds 60 --kind jpeg --kind mp4

Bytes of a good file are changed, removed, repeated and set to zero; the file is opened and shown. It must be
shown or refused by an InputError, within ten seconds of processor time and 4 GiB. Printed are the outcomes of
each kind, and everything else; then the exit code is 1, and the files are kept in the folder `--keep`. Each
kind runs in a process of its own, so that a crash of a library is found as well.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import pickle
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import wave
from collections import Counter
from collections.abc import Callable
from contextlib import chdir
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from petabatch.errors import InputError
from petabatch.petavision.pvp import write_activities
from petabatch.sources import Cifar10, Idx, ImageArray, Images, Sound, Video

_SECONDS, _BYTES = 10, 4 << 30
_BELOW = 12
"""Depth of the folder of a list: damage does not add up to more `../`."""
_RNG = np.random.default_rng(0)
_COLOUR = _RNG.integers(0, 255, (6, 32, 32, 3)).astype(np.uint8)
_SMOOTH = np.add.outer(np.arange(40), np.arange(50)).astype(np.uint8)[..., None].repeat(3, -1)


def _picture(form: str, mode: str = "RGB", **options: Any) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(_SMOOTH).convert(mode).save(file, form, **options)
    return file.getvalue()


def _pvp(sparse: bool) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.pvp"
        frames = [(float(t), image * (image > 200)) for t, image in enumerate(_COLOUR)]
        write_activities(path, _COLOUR.shape[1:], frames, sparse)
        return path.read_bytes()


def _array(save: Callable[..., None], *arrays: np.ndarray, **named: np.ndarray) -> bytes:
    file = io.BytesIO()
    save(file, *arrays, **named)
    return file.getvalue()


def _hdf5(matlab: bool) -> bytes:
    file = io.BytesIO()
    with h5py.File(file, "w", userblock_size=512 if matlab else 0) as stored:
        stored.create_dataset("x", data=_COLOUR, chunks=(1, 32, 32, 3), compression="gzip", fletcher32=True)
    content = file.getvalue()
    head = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
    return head + content[len(head) :] if matlab else content


def _matlab() -> bytes:
    from scipy.io import savemat

    file = io.BytesIO()
    savemat(file, {"x": _COLOUR.transpose(1, 2, 3, 0)}, do_compression=True)
    return file.getvalue()


def _idx() -> bytes:
    return bytes([0, 0, 8, 3]) + np.array([6, 32, 32], ">u4").tobytes() + _COLOUR[..., 0].tobytes()


def _cifar() -> np.ndarray:
    return _COLOUR.transpose(0, 3, 1, 2).reshape(6, -1)


def _sound() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as stored:
        stored.setparams((1, 2, 8000, 0, "NONE", ""))
        stored.writeframes(_COLOUR.tobytes())
    return file.getvalue()


def _video(form: str, codec: str) -> bytes:
    import av

    file = io.BytesIO()
    with av.open(file, "w", format=form) as container:
        stream = container.add_stream(codec, rate=25)
        stream.height, stream.width, stream.pix_fmt = 32, 48, "yuv420p"
        for number in range(12):
            pixels = np.roll(_SMOOTH[:32, :48], number, axis=1)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return file.getvalue()


KINDS: dict[str, tuple[str, Any, tuple[int, int, int], Callable[[], bytes]]] = {
    "png": (".png", Images, (8, 8, 3), lambda: _picture("png")),
    "palette": (".png", Images, (8, 8, 3), lambda: _picture("png", "P")),
    "jpeg": (".jpg", Images, (8, 8, 3), lambda: _picture("jpeg")),
    "cmyk": (".jpg", Images, (8, 8, 3), lambda: _picture("jpeg", "CMYK")),
    "tiff": (".tif", Images, (8, 8, 3), lambda: _picture("tiff", compression="tiff_lzw")),
    "webp": (".webp", Images, (8, 8, 3), lambda: _picture("webp")),
    "gif": (".gif", Images, (8, 8, 3), lambda: _picture("gif", "P")),
    "bmp": (".bmp", Images, (8, 8, 3), lambda: _picture("bmp")),
    "npy": (".npy", ImageArray, (8, 8, 3), lambda: _array(np.save, _COLOUR)),
    "npz": (".npz", ImageArray, (8, 8, 3), lambda: _array(np.savez, x=_COLOUR)),
    "npz_deflated": (".npz", ImageArray, (8, 8, 3), lambda: _array(np.savez_compressed, x=_COLOUR)),
    "mat": (".mat", ImageArray, (8, 8, 3), _matlab),
    "mat73": (".mat", ImageArray, (3, 32, 32), lambda: _hdf5(True)),
    "hdf5": (".h5", ImageArray, (8, 8, 3), lambda: _hdf5(False)),
    "idx": ("", Idx, (8, 8, 1), _idx),
    "idx_gz": (".gz", Idx, (8, 8, 1), lambda: gzip.compress(_idx())),
    "cifar": (".bin", Cifar10, (8, 8, 3), lambda: b"".join(b"\x07" + row.tobytes() for row in _cifar())),
    "cifar_pickle": ("", Cifar10, (8, 8, 3), lambda: pickle.dumps({b"data": _cifar()}, 2)),
    "wav": (".wav", Sound, (1, 64, 1), _sound),
    "mp4": (".mp4", Video, (8, 8, 3), lambda: _video("mp4", "libx264")),
    "mkv": (".mkv", Video, (8, 8, 3), lambda: _video("matroska", "mpeg4")),
    "avi": (".avi", Video, (8, 8, 3), lambda: _video("avi", "mpeg4")),
    "pvp": (".pvp", ImageArray, (8, 8, 3), lambda: _pvp(False)),
    "pvp_sparse": (".pvp", ImageArray, (8, 8, 3), lambda: _pvp(True)),
    "list": (".txt", Images, (8, 8, 3), lambda: b"a.png\n# comment\n\n../*.jpg\nb.png\n"),
}
"""Ending, source, shape of the layer, and content of a good file, of each kind."""


@cache
def _good(kind: str) -> bytes:
    return KINDS[kind][3]()


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a file with one or several kinds of damage, mostly in its first part, which has the headers."""
    found = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        at = int(len(found) * rng.random() ** rng.choice([1, 3]))
        length = int(rng.integers(1, 17))
        match rng.integers(6):
            case 0:
                found[at : at + 1] = rng.integers(0, 256, 1, np.uint8).tobytes()
            case 1 if at < len(found):
                found[at] ^= 1 << int(rng.integers(8))
            case 2:
                del found[at:]
            case 3:
                found[at : at + length] = bytes([int(rng.choice([0, 255, 127, 128]))]) * length
            case 4:
                found[at:at] = found[at : at + length]
            case 5:
                del found[at : at + length]
    return bytes(found)


def damaged_list(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a damaged list of relative paths: others may lead to a whole disk."""
    return re.sub(rb"(?<![!-.0-}])[/~]+", b"", damaged(content, rng))  # those that nothing precedes in a line


def place(folder: Path) -> Path:
    """Return a place for a list, so far below `folder` that it leads to nothing above; with its images."""
    inner = folder.joinpath(*["below"] * _BELOW)
    if not inner.exists():
        inner.mkdir(parents=True)
        for name in ("a.png", "b.png", "../c.jpg"):
            (inner / name).write_bytes(_picture("png"))
    return inner


def trial(kind: str, number: int, folder: Path) -> str:
    """Return what happens to damaged file `number` of a kind: "shown" or "refused", else what is wrong."""
    ending, source, shape, _ = KINDS[kind]
    damage = damaged_list if kind == "list" else damaged
    path = (place(folder) if kind == "list" else folder) / f"{kind}{ending}"
    path.write_bytes(damage(_good(kind), np.random.default_rng(number)))
    key = "file" if source in (Idx, ImageArray) else "files"
    more = {"dataset": "x"} if kind == "hdf5" else {}
    try:
        with chdir(path.parent):  # where files of a list are looked for as well
            read = source(**{key: str(path)}, **more).open(shape, 1, 1)
        for display in range(8):
            found = read(0, display)
            assert found.shape == shape
            assert np.isfinite(found).all()
    except InputError as error:
        named = str(folder) in str(error) or "shows films" in str(error)  # also of a file that a list led to
        return "refused" if named else f"unnamed: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}\n{''.join(traceback.format_tb(error.__traceback__)[-3:])}"
    return "shown"


def _child(kind: str, seconds: float, first: int, folder: Path) -> None:
    """Try damaged files of a kind, and print what happens to each as a line of JSON."""
    resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
    end, number = time.monotonic() + seconds, first
    while time.monotonic() < end:
        print(json.dumps([number, "begun"]), flush=True)
        signal.setitimer(signal.ITIMER_PROF, _SECONDS)  # of the processor, which others may use as well
        signal.alarm(12 * _SECONDS)
        outcome = trial(kind, number, folder)
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps([number, outcome]), flush=True)
        number += 1


def campaign(kind: str, seconds: float, first: int, keep: Path) -> tuple[Counter[str], int]:
    """Return the numbers of files shown and refused, and how many went wrong."""
    counts: Counter[str] = Counter()
    wrong: dict[str, str] = {}
    end, number = time.monotonic() + seconds, first
    with tempfile.TemporaryDirectory() as folder:
        while (left := end - time.monotonic()) > 0:
            command = [sys.executable, "-W", "ignore", __file__, "--child", kind, "--seconds", str(left),
                       "--seed", str(number), "--keep", folder]  # fmt: skip
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
            if done.returncode:
                lines.append([lines[-1][0] if lines else number, f"died of signal {-done.returncode}"])
            for number, outcome in lines:
                if outcome in ("shown", "refused"):
                    counts[outcome] += 1
                elif outcome != "begun" and outcome.splitlines()[0] not in wrong:
                    wrong[outcome.splitlines()[0]] = outcome
                    keep.mkdir(exist_ok=True)
                    damage = damaged_list if kind == "list" else damaged
                    content = damage(_good(kind), np.random.default_rng(number))
                    (keep / f"{kind}_{number}{KINDS[kind][0]}").write_bytes(content)
                    print(f"{kind} {number}: {outcome}", flush=True)
            number += 1
    return counts, len(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="for each kind of file")
    parser.add_argument("--kind", action="append", choices=KINDS, help="default: all, one after the other")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("fuzz_inputs"), help="folder for files found wrong")
    parser.add_argument("--child", choices=KINDS, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        _child(chosen.child, chosen.seconds, chosen.seed, chosen.keep)
        return 0
    total = 0
    for kind in chosen.kind or KINDS:
        counts, wrong = campaign(kind, chosen.seconds, chosen.seed, chosen.keep)
        told = ", ".join(f"{n:,} {outcome}" for outcome, n in sorted(counts.items()))
        print(f"{kind:14} {told}, {wrong} kinds of wrong", flush=True)
        total += wrong
    return bool(total)


if __name__ == "__main__":
    sys.exit(main())
