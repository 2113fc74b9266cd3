"""`run.start_from`: runs that start from a checkpoint of another run, with the same or another batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

import petabatch
from petabatch import Simulator, simulation
from petabatch import start_from as origin
from petabatch.errors import InputFileError, ParamsError
from petabatch.session import RunSession
from petabatch.storage.prune import prune
from support.commands import Command, alone, contents, set_all

STOP = 25
"""In the middle of a display of ten steps."""


@pytest.fixture
def first(small: Path) -> Path:
    """A run of batch 3 that ends after 25 of the 60 steps of `small.toml`."""
    return alone(small, "first", f"run.steps={STOP}")


def go_on(small: Path, name: str, *more: str) -> Path:
    return alone(small, name, "run.start_from=first", *more)


def at(path: Path, step: int) -> dict[str, np.ndarray]:
    """Return the arrays of a checkpoint."""
    found: dict[str, np.ndarray] = {}
    with h5py.File(path / "checkpoints" / f"step_{step:09d}.h5") as file:
        file.visititems(lambda name, item: found.update({name: item[()]} if hasattr(item, "dtype") else {}))
        for key in ("connections/dictionary/weights", "connections/dictionary/momentum"):
            found[key] = file[key][()]
    return found


@pytest.fixture(autouse=True)
def _steps(small: Path) -> None:
    small.write_text(small.read_text().replace("displays = 6", "steps = 60"))


def test_going_on_elsewhere_gives_the_bits_of_a_run_that_never_stopped(small: Path, first: Path) -> None:
    alone(small, "whole")
    on = go_on(small, "on")
    assert at(on, 60).keys() == at(small.parent / "whole", 60).keys()
    for key, array in at(small.parent / "whole", 60).items():
        assert array.tobytes() == at(on, 60)[key].tobytes(), key
    with h5py.File(on / "run.h5") as file:
        assert file["probes/energy/step"][0] == 30
        assert "first" in file.attrs["params"]


@pytest.mark.parametrize("batch", [2, 7])
def test_cycle_gives_slice_i_the_state_of_slice_i_modulo_the_old_batch(
    small: Path, first: Path, batch: int
) -> None:
    on = go_on(small, "on", f"run.batch={batch}", "run.batch_change=cycle", "checkpoint.keep=100")
    old, new = at(first, STOP), at(on, STOP)
    taken = np.arange(batch) % 3
    for key in ("layers/V1/V", "layers/V1/A", "layers/error/A"):
        np.testing.assert_array_equal(new[key], old[key][taken])
    np.testing.assert_array_equal(
        new["connections/dictionary/weights"], old["connections/dictionary/weights"]
    )
    np.testing.assert_array_equal(new["layers/image/A"][:3], old["layers/image/A"][:batch])


def test_reset_starts_new_slices_afresh_with_their_own_image_and_keeps_the_weights(
    small: Path, first: Path
) -> None:
    on = go_on(small, "on", "run.batch=7", "run.batch_change=reset", "checkpoint.keep=100")
    old, new = at(first, STOP), at(on, STOP)
    np.testing.assert_array_equal(new["layers/V1/V"][:3], old["layers/V1/V"])
    assert not new["layers/V1/V"][3:].any()
    np.testing.assert_array_equal(
        new["connections/dictionary/weights"], old["connections/dictionary/weights"]
    )
    # at step 25 item 2 is seen: the images are seven, and slice s sees number (2 * 7 + s) mod 7 of them
    images = np.load(small.parent / "images.npy")
    np.testing.assert_array_equal(new["layers/image/A"][3:, 0], images[3:7])


def test_another_batch_is_an_error_without_a_rule_for_it(small: Path, first: Path) -> None:
    with pytest.raises(
        ParamsError, match=r"(?s)run\.batch: the batch differs from that of .*expected: 3.*cycle"
    ):
        go_on(small, "on", "run.batch=4")
    assert not (small.parent / "on").exists()


def test_another_network_is_an_error_that_names_the_arrays(small: Path, first: Path) -> None:
    small.write_text(small.read_text().replace(", momentum = 0.5", ""))
    with pytest.raises(
        ParamsError, match=r"(?s)run\.start_from.*expected: connections/dictionary/momentum missing"
    ):
        go_on(small, "on")


def test_a_pruned_run_is_no_start_and_the_message_says_how_to_take_its_weights(
    small: Path, first: Path
) -> None:
    prune(first)
    with pytest.raises(
        ParamsError, match=r'no complete checkpoint(?s:.*)init = { type = "file", path = ".*first"'
    ):
        go_on(small, "on")


def test_a_run_too_short_for_its_start_is_an_error(small: Path, first: Path) -> None:
    with pytest.raises(ParamsError, match=r"(?s)run\.steps.*found: +25 steps.*more than 25"):
        go_on(small, "on", "run.steps=25")


def test_killed_before_its_first_checkpoint_it_still_starts_from_the_other(small: Path, first: Path) -> None:
    on = go_on(small, "on")
    expected = contents(on / "run.h5")
    for file in (*(on / "checkpoints").iterdir(), *(on / "parts").iterdir()):
        file.unlink()
    simulation.resume(on, mpi=False, quiet=True)
    assert contents(on / "run.h5") == expected


def test_killed_before_its_first_flush_it_is_resumed(
    small: Path, first: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(RunSession, "_flush", killed)
        with pytest.raises(SystemExit):
            go_on(small, "on")
    on = small.parent / "on"
    assert at(on, STOP)
    assert not list((on / "parts").iterdir())
    simulation.resume(on, mpi=False, quiet=True)
    assert contents(on / "run.h5") == contents(go_on(small, "whole") / "run.h5")


@pytest.mark.sampled(1)
@pytest.mark.mpi
@pytest.mark.parametrize("rule", ["cycle", "reset"])
def test_the_rules_mean_the_same_on_any_number_of_ranks(
    small: Path, first: Path, petabatch: Command, rule: str
) -> None:
    more = ("run.batch=8", f"run.batch_change={rule}")
    one = go_on(small, "one", *more)
    flags = set_all("run.start_from=first", *more)
    done = petabatch("run", small, "--out", "two", "-q", *flags, ranks=2)
    assert done.returncode == 0, done.stderr
    assert contents(small.parent / "two" / "run.h5") == contents(one / "run.h5")


def test_an_origin_that_is_not_there_is_named_with_what_it_could_be(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match=r"nowhere: no such run or checkpoint\n.*expected"):
        origin.checkpoint_of(tmp_path / "nowhere")


UNITS = """
[run]
steps = {steps}
batch = 2
seed = {seed}
dt = 0.1
{start}
[layers.n]
type = "neurons"
shape = [1, 1, 6]
equations = "dv/dt = k - v"
spike = "v > 0.3"
reset = "v = 0"
parameters = {{ k = {k} }}

[connections.c]
type = "sparse"
pre = "n"
post = "n"
target = "v"
{wired}
init = {{ type = "constant", value = {weight} }}
delays = {{ type = "uniform", low = 0.1, high = 0.4 }}
"""
CONSTANT = '{{ type = "constant", value = {} }}'


def units(folder: Path, name: str, **values: object) -> Path:
    """Return the run of such units, those of the first run unless `values` say others."""
    return alone(_written(folder, name, **values), name)


def _written(folder: Path, name: str, **values: object) -> Path:
    given = {
        "steps": 6,
        "seed": 1,
        "k": "1.0",
        "weight": 0.1,
        "start": "",
        "wired": "in_degree = 2",
        **values,
    }
    file = folder / f"{name}.toml"
    file.write_text(UNITS.format(**given))
    return file


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the start from another run says."""
    found: list[str] = []
    for level in ("info", "warning"):
        monkeypatch.setattr(origin.log, level, lambda text, *given: found.append(text % given))
    return found


@pytest.mark.parametrize("before", ["1.0", CONSTANT.format(1.0)])
@pytest.mark.parametrize("now", ["3.0", CONSTANT.format(3.0)])
def test_parameters_are_those_of_the_params_however_they_are_written(
    tmp_path: Path, told: list[str], before: str, now: str
) -> None:
    units(tmp_path, "before", k=before)
    on = units(tmp_path, "on", k=now, steps=9, start='start_from = "before"')
    with Simulator.from_run(tmp_path / "before") as sim, Simulator.from_run(on) as found:
        numbers = sim.save().arrays
        given = petabatch.load(tmp_path / "on.toml").network
        run_alone = given.run.model_copy(update={"start_from": None})
        with Simulator(given.model_copy(update={"run": run_alone})) as expected:
            state = {**expected.save().arrays, **{k: a for k, a in numbers.items() if k != "layers/n/k"}}
            expected.load(replace(expected.save(), step=6, arrays=state))
            expected.step(3)
            for key, array in expected.save().arrays.items():
                np.testing.assert_array_equal(found.save().arrays[key], array, err_msg=key)
    of_units = before[0] == now[0] == "{"
    assert any("layers/n/k are those of the params" in text for text in told) == of_units


@pytest.mark.parametrize("change", [{"seed": 2}, {"wired": "probability = 0.9"}])
def test_other_numbers_of_synapses_than_in_the_checkpoint_are_refused_with_what_draws_them(
    tmp_path: Path, change: dict[str, object]
) -> None:
    units(tmp_path, "before", wired="probability = 0.4")
    values = {"wired": "probability = 0.4", "steps": 9, "start": 'start_from = "before"', **change}
    on = petabatch.load(_written(tmp_path, "on", **values))
    with pytest.raises(InputFileError, match=r"another run\.seed or probability draws another number"):
        petabatch.run(on, tmp_path / "on")


@pytest.mark.parametrize("change", [{"seed": 2}, {"weight": 0.2}, {}])
def test_synapses_of_the_checkpoint_are_told_where_the_params_make_others(
    tmp_path: Path, told: list[str], change: dict[str, object]
) -> None:
    first = units(tmp_path, "before")
    on = units(tmp_path, "on", steps=9, start='start_from = "before"', **change)
    said = "connections.c: its synapses and their weights are those of"
    assert any(said in text for text in told) == bool(change)
    for key in ("targets", "delays", "weights"):
        with Simulator.from_run(first) as one, Simulator.from_run(on) as other:
            np.testing.assert_array_equal(one["c"][key], other["c"][key])


def test_a_sweep_without_a_state_at_its_end_says_when_there_is_one(small: Path) -> None:
    alone(
        small, "first", "connections.dictionary.learn.every='never'", "sweep.run.seed=[1, 2]", "sweep.wave=1"
    )
    with pytest.raises(InputFileError, match=r"no complete checkpoint(.|\n)*one wave on each rank"):
        go_on(small, "on")
