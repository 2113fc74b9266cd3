"""Pools of slices: the bits of a run of all at once, in any order, on any thread and rank, resumed or not."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import numpy as np
import pytest

from petabatch import results, simulation
from petabatch.engine import pool
from petabatch.errors import ParamsError, StoppedEarly
from petabatch.report.information import describe
from petabatch.waves.queue import Chunk
from petabatch.waves.run import join, run_chunk
from support.commands import Command, datasets

FROZEN = (
    "connections.dictionary.learn.every='never'",
    "run.batch=7",
    "run.display=60",
    "run.displays=1",
    "run.until={gap=0.12, every=5}",
    "layers.V1.tau=5.0",
    "probes.optimality={type='optimality', image='image', reconstruction='recon', code='V1', drive='drive', "
    "coefficient=0.3, every='display'}",
)
POOL = "run.pool=true"
Recorded = dict[str, np.ndarray]


def coded(file: Path, name: str, *settings: str, **keys: object) -> results.Results:
    """Code seven images into a folder beside the params file."""
    loaded = simulation.read(file, [*FROZEN, *settings])
    return simulation.run(loaded, file.parent / name, mpi=False, quiet=True, **keys)  # type: ignore[arg-type]


def recorded(run: results.Results) -> Recorded:
    """Return all that a run recorded, with what its slices differ in but for their numbers; close it."""
    with run:
        found = {name: run[name][...] for name in run}
        return found | {f"steps of {name}": run[name].steps for name in found} | run.differing


def assert_same(found: Recorded, expected: Recorded) -> None:
    """Compare what two runs recorded, to the bit."""
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert (found[name].dtype, found[name].shape) == (values.dtype, values.shape), name
        assert found[name].tobytes() == values.tobytes(), name


@pytest.mark.parametrize("kind", [POOL, "sweep.layers.V1.threshold=[0.3, 0.4]"])
def test_the_run_file_names_the_files_of_the_images(small: Path, kind: str) -> None:
    waves = "sweep.wave=1" if kind != POOL else kind
    ours, theirs = (
        coded(small, "ours", kind, waves),
        coded(small, "theirs", *([] if kind == POOL else [kind])),
    )
    with ours, theirs:
        shown = datasets(ours.path)
        expected = datasets(theirs.path)
    for name in ("files", "first_item"):
        assert shown[f"inputs/image/{name}"].tolist() == expected[f"inputs/image/{name}"].tolist()
    assert shown["inputs/image/files"].tolist() == [str(small.parent / "images.npy").encode()]


@pytest.fixture
def whole(small: Path) -> Recorded:
    """What a run of seven slices records."""
    found = recorded(coded(small, "whole"))
    steps = found["probes/until/steps"][0]
    assert len(set(steps.tolist())) > 2, "codes of some images must be certified before others"
    return found


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_slices_have_the_bits_of_one_run(small: Path, whole: Recorded, threads: int) -> None:
    run = coded(small, "pool", POOL, threads=threads)
    assert run.status == "done"
    assert run.attributes["points"] == {"all": 7, "finished": 7, "failed": 0, "why": {}}
    assert run.coordinates["slice"].tolist() == list(range(7))
    assert_same(recorded(run), whole)
    log = (small.parent / "pool" / "log.txt").read_text()
    assert re.search(r"started in .*pool: 7 slices to compute, \d at a time\n", log)
    assert re.search(r"done: .*pool/run\.h5 \(\d+:\d\d(, .* kernels)?, [1-9][\d,]* slice·steps/s\)\n", log)


def test_slices_with_values_of_their_own_and_noise_too(small: Path) -> None:
    more = (
        "layers.V1.threshold={slices=[0.3, 0.35, 0.3, 0.4, 0.45, 0.3, 0.5]}",
        "layers.image.source.transforms=[{type='noise', std=0.1}]",
        "layers.V1.start={V={type='gaussian', std=0.1, per_slice=true}}",
        "run.displays=2",
    )
    assert_same(
        recorded(coded(small, "pool", *more, POOL, threads=2)), recorded(coded(small, "whole", *more))
    )


def advanced(monkeypatch: pytest.MonkeyPatch, stop_after: int = 100) -> list[int]:
    """Return a list that receives the slices that are advanced; a signal comes with the one after some."""
    found, made = list[int](), pool.Pool._together

    def counted(self: pool.Pool, slot: range, numbers: list[int]) -> pool.Made:
        done = made(self, slot, numbers)
        found.extend(numbers)
        if len(found) > stop_after:
            signal.raise_signal(signal.SIGTERM)
        return done

    monkeypatch.setattr(pool.Pool, "_together", counted)
    return found


def test_a_pool_that_was_stopped_is_resumed_with_what_is_left(
    small: Path, whole: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        advanced(patched, stop_after=2)
        with pytest.raises(StoppedEarly) as stopped:
            coded(small, "pool", POOL, threads=1)
    with results.open(small.parent / "pool") as run:
        assert run.status == "stopped"
        left = 7 - run.batch
    assert 0 < left < 7
    so_far = f"{7 - left} of 7 slices finished"
    assert str(stopped.value).startswith(f"stopped with {so_far}\n")
    assert f"stopped: {so_far}\n" in describe(small.parent / "pool")
    again = advanced(monkeypatch)
    assert_same(recorded(simulation.resume(small.parent / "pool", mpi=False, quiet=True)), whole)
    assert len(again) == left


def test_ranks_take_slices_as_they_get_free(small: Path, whole: Recorded, petabatch: Command) -> None:
    settings = [f"-s{text}" for text in (*FROZEN, POOL)]
    done = petabatch("run", small, "--out", "ranks", "-q", "--threads", 1, *settings, ranks=2)
    assert done.returncode == 0, done.stderr
    assert_same(recorded(results.open(small.parent / "ranks")), whole)


def test_jobs_of_an_array_make_slices_in_any_order(small: Path, whole: Recorded) -> None:
    out, settings = small.parent / "jobs", [*FROZEN, POOL]
    for chunk, joined in ((2, "3 of 7 slices finished"), (1, "7 of 7 slices finished")):
        assert run_chunk(small, settings, out, Chunk(chunk, 2), mpi=False, quiet=True) == (0, "slice")
        assert str(join(out)) == joined
        assert joined in describe(out)
    assert_same(recorded(results.open(out)), whole)


def test_a_slice_that_fails_lets_the_others_go_on(small: Path, whole: Recorded) -> None:
    images = np.load(small.parent / "images.npy")
    images[4] = np.nan
    np.save(small.parent / "images.npy", images)
    with coded(small, "pool", POOL) as run:
        assert (run.failed, run.coordinates["failed"].tolist()) == (1, [-1] * 4 + [0] + [-1] * 2)
        sound = [n for n in range(7) if n != 4]
        assert np.array_equal(run["layers/V1/A"][:, sound], whole["layers/V1/A"][:, sound])
    assert "slice 4: step 0: " in describe(small.parent / "pool")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("connections.dictionary.learn.every='display'",), "weights are frozen"),
        (("connections.dictionary.mode='shared'",), "weights belong to all slices"),
        (("sweep.layers.V1.threshold=[0.3, 0.4]",), "not available with `run.pool`"),
        (("parallel.batch=2",), r"(?s)parallel\.batch: .* no shares of the batch.*found: +2.*leave it out"),
    ],
)
def test_what_slices_have_in_common_may_not_change(
    small: Path, settings: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ParamsError, match=message):
        coded(small, "pool", POOL, *settings)
    assert not (small.parent / "pool").exists()


def test_a_slice_that_stops_keeps_nothing_of_the_one_before(small: Path) -> None:
    gains = "connections.recon_to_error.strength={slices=[1, 1, 1, -80, 1, 1, 1]}"
    more = (gains, "run.display=400", "run.displays=2", "run.until={gap=1e-9, every=400}")
    with coded(small, "pool", POOL, *more, threads=1) as run:
        assert run.coordinates["failed"].tolist() == [-1] * 3 + [400] + [-1] * 3
        shown = run["inputs/image/item"][...]
        assert np.isnan(run["layers/V1/A"][:, 3]).all()
    assert (shown[:, 2] > 0).all()
    assert shown[1, 3] == 0, "of the second display of slice 3, which was not reached"
