"""The features of a code layer split over ranks, with real mpirun: the same run to rounding."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from petabatch import simulation
from petabatch.engine.feature_split import FeatureSplit
from petabatch.errors import ParamsError
from petabatch.network import lazy_codes
from petabatch.network.method import choose
from petabatch.parallel.comm import Serial
from petabatch.report.explain import summary
from petabatch.storage.checkpoint import latest_checkpoint, load_checkpoint
from petabatch.storage.directory import RunDirectory
from support.commands import Command, alone, contents, datasets, set_all

MORE = ("run.batch=4", "run.displays=4", "run.verify=2")

PROBES = """
[probes.active]
type = "l0"
layer = "V1"
[probes.sum]
type = "l1"
layer = "V1"
[probes.quality]
type = "psnr"
image = "image"
reconstruction = "recon"
"""


def assert_close(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.dtype == other[name].dtype, name
        if array.dtype.kind == "f":
            np.testing.assert_allclose(other[name], array, rtol=2e-4, atol=2e-4, err_msg=name)
        else:
            np.testing.assert_array_equal(other[name], array, err_msg=name)


def state(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of the newest checkpoint."""
    head = latest_checkpoint(RunDirectory.open(path))
    assert head is not None
    return load_checkpoint(head, 0, 4)[0]


@pytest.fixture
def one(small: Path) -> Path:
    """The run of one rank."""
    small.write_text(small.read_text().replace("[output]", PROBES + "[output]"))
    return alone(small, "one", *MORE)


def agrees(one: Path, petabatch: Command, ranks: int, features: int) -> Path:
    """Return a run with split features, which agrees with that of one rank."""
    flags, out = set_all(*MORE, f"parallel.features={features}"), one.parent / f"{features}_of_{ranks}"
    done = petabatch("run", one.parent / "small.toml", "--out", out, "-q", *flags, ranks=ranks)
    assert done.returncode == 0, done.stderr
    assert_close(datasets(one / "run.h5"), datasets(out / "run.h5"))
    assert_close(state(one), state(out))
    return out


@pytest.mark.mpi
def test_two_by_two_ranks_agree_with_one_and_any_split_of_the_batch_keeps_the_bits(
    one: Path, petabatch: Command
) -> None:
    two, grid = agrees(one, petabatch, 2, 2), agrees(one, petabatch, 4, 2)
    assert contents(grid / "run.h5") == contents(two / "run.h5")


@pytest.mark.mpi
@pytest.mark.long
def test_a_quarter_of_the_features_on_each_rank_agrees_with_one(one: Path, petabatch: Command) -> None:
    agrees(one, petabatch, 4, 4)


@pytest.mark.long
@pytest.mark.mpi
def test_a_run_with_split_features_goes_on_without_the_split(small: Path, petabatch: Command) -> None:
    more = (*MORE, "run.displays=8")
    alone(small, "one", *more)
    flags = set_all(*more, "parallel.features=2", "parallel.batch=1")
    done = petabatch("run", small, "--out", "cut", "-q", *flags, ranks=2)
    assert done.returncode == 0, done.stderr
    for file in (small.parent / "cut" / "checkpoints").glob("step_000000080*"):
        file.unlink()  # as if it had been killed after step 70
    refused = petabatch("resume", "cut", "-q")
    assert refused.returncode == 1
    assert "the number of ranks does not match [parallel]" in refused.stderr
    on = petabatch("resume", "cut", "-q", "--features", 1, ranks=3)
    assert on.returncode == 0, on.stderr
    assert_close(datasets(small.parent / "one" / "run.h5"), datasets(small.parent / "cut" / "run.h5"))


def test_each_rank_holds_its_part_and_check_says_what_that_saves_and_costs(small: Path) -> None:
    whole = simulation.plan(simulation.read(small, ("parallel.features=2",)))
    group = Serial()
    group.size, group.rank = 2, 1
    part = FeatureSplit(whole, group).plan.variables
    assert part["connections/dictionary/weights"].shape == (1, 1, 4, 4, 4, 3)
    assert part["layers/V1/V"].shape == (6, 6, 4)
    assert part["layers/recon/A"].shape[1:] == (12, 12, 3)
    said = summary(whole)
    assert "of V1 split over 2 ranks" in said
    assert f"{12 * 12 * 3 * 4 / 1024:.1f} KiB from each other rank" in said


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("shape = [6, 6, 8]", "shape = [6, 6, 9]", r"found: +V1: 9 features cannot be split into 2"),
        (
            'type = "lca"',
            'type = "fista"',
            r"can be split over ranks.*\n +found: +.*, fista\n +expected: .* lca,",
        ),
    ],
)
def test_networks_that_cannot_be_split_are_refused_with_the_reason(
    small: Path, old: str, new: str, reason: str
) -> None:
    text = small.read_text().replace("rate = 0.5, momentum = 0.5", "rate = 0.5")
    if "fista" in new:  # which has neither a tau nor potentials
        text = text.replace("tau = 10.0\n", "").replace('"A", "V"', '"A"')
    assert old in text
    small.write_text(text.replace(old, new))
    simulation.plan(simulation.read(small))
    with pytest.raises(ParamsError, match=reason):
        simulation.plan(simulation.read(small, ("parallel.features=2",)))


def test_the_hint_lists_the_numbers_into_which_features_divide(small: Path) -> None:
    with pytest.raises(ParamsError, match="8 features cannot be split into 3 parts") as raised:
        simulation.plan(simulation.read(small, ("parallel.features=3",)))
    (problem,) = raised.value.problems
    expected = "parallel.features is 3; set it to 2, 4 or 8, or to 1 not to split features over ranks"
    assert problem.hint == expected


def test_all_ranks_evaluate_the_same_codes_lazily_as_without_a_split(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lazy_codes, "_SHORT", 0)
    lasting = ("layers.V1.shape=[6, 6, 1200]", "run.display=40", "run.displays=1")
    assert simulation.plan(simulation.read(small, lasting)).method.program.lazy
    whole = simulation.plan(simulation.read(small, (*lasting, "parallel.features=2")))
    group = Serial()
    group.size, group.rank = 2, 1
    part = FeatureSplit(whole, group).plan
    monkeypatch.setattr(lazy_codes, "LEAST", 10**9)  # a part alone would be too small
    assert not choose(part.graph).program.lazy
    assert part.method.decision == whole.method.decision
    assert [one.layer for one in FeatureSplit(whole, group).plan.method.program.lazy] == ["V1"]
    assert part.variables.keys() == whole.variables.keys()


TWO_LAYERS = """
[layers.potential]
type = "linear"
shape = [6, 6, 8]
[connections.V1_to_potential]
type = "potential"
pre = "V1"
post = "potential"
[layers.V1error]
type = "linear"
shape = [6, 6, 8]
[layers.V2]
type = "lca"
shape = [3, 3, 4]
tau = 10.0
threshold = 0.01
[layers.V1recon]
type = "linear"
shape = [6, 6, 8]
[connections.V1_to_V1error]
type = "identity"
pre = "V1"
post = "V1error"
[connections.V1recon_to_V1error]
type = "identity"
pre = "V1recon"
post = "V1error"
channel = "inh"
feedback = true
[connections.code_error]
type = "identity"
pre = "V1error"
post = "V1"
channel = "inh"
feedback = true
[connections.drive2]
type = "transpose"
pre = "V1error"
post = "V2"
of = "dictionary2"
[connections.dictionary2]
type = "conv"
pre = "V2"
post = "V1recon"
patch = [2, 2]
init = { type = "gaussian" }
normalize = { type = "l2" }
"""


@pytest.mark.long
@pytest.mark.mpi
def test_two_split_layers_with_identities_between_them_are_resumed_with_the_bits_of_one_run(
    small: Path, petabatch: Command
) -> None:
    outputs = (
        "output.layers.V1={variables=['A', 'V']}",
        "output.layers.V2={every='step'}",
        "output.layers.potential={}",
    )
    small.write_text(small.read_text().replace("[output]", TWO_LAYERS + "[output]"))
    folder, more = small.parent, (*MORE, "run.kernel=lazy", "checkpoint.every=7", *outputs)
    alone(small, "one", *more)
    split = set_all(*more, "parallel.features=2")
    done = petabatch("run", small, "--out", "whole", "-q", "--threads", 2, *split, ranks=2)
    assert done.returncode == 0, done.stderr
    shutil.copytree(folder / "whole", folder / "killed")
    for file in (folder / "killed" / "checkpoints").glob("step_000000040*"):
        file.unlink()  # as if it had been killed after step 35, within a display
    done = petabatch("resume", "killed", "-q", "--threads", 1, ranks=2)
    assert done.returncode == 0, done.stderr
    one, whole = (datasets(folder / name / "run.h5") for name in ("one", "whole"))
    assert_close(one, whole)
    assert abs(one["layers/V2/A"]).max() > 0
    assert contents(folder / "whole" / "run.h5") == contents(folder / "killed" / "run.h5")


@pytest.mark.mpi
def test_values_of_slices_over_time_and_random_starts_are_those_of_a_run_without_a_split(
    small: Path, petabatch: Command
) -> None:
    text = small.read_text().replace(
        "threshold = 0.3", "threshold = { slices = [0.2, 0.3, 0.4, 0.5] }\n" + START
    )
    small.write_text(text.replace("tau = 10.0", "tau = { at = [1, 2], values = [10.0, 15.0] }"))
    folder, more = small.parent, (*MORE, "run.kernel=lazy", "output.layers.V1={every='step'}")
    alone(small, "one", *more)
    done = petabatch("run", small, "--out", "two", "-q", *set_all(*more, "parallel.features=2"), ranks=2)
    assert done.returncode == 0, done.stderr
    assert_close(datasets(folder / "one" / "run.h5"), datasets(folder / "two" / "run.h5"))


START = 'start = { V = { type = "uniform", low = 0.0, high = 0.5, per_slice = true } }\n'


@pytest.mark.sampled(1)
@pytest.mark.mpi
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('normalize = { type = "l2" }', 'normalize = { type = "l2", by = "post" }\ndecorrelate = 0.1'),
        ('normalize = { type = "l2" }', 'normalize = { type = "l2" }\nrevive = { after = 1 }'),
    ],
    ids=["decorrelate", "revive"],
)
def test_updates_of_all_features_at_once_are_those_of_a_run_without_a_split(
    small: Path, petabatch: Command, old: str, new: str
) -> None:
    text = small.read_text().replace("rate = 0.5, momentum = 0.5", "rate = 0.5")
    assert old in text
    small.write_text(text.replace(old, new))
    folder, more = small.parent, (*MORE, "layers.V1.threshold=4", "output.connections.dictionary={}")
    alone(small, "one", *more)
    done = petabatch("run", small, "--out", "two", "-q", *set_all(*more, "parallel.features=2"), ranks=2)
    assert done.returncode == 0, done.stderr
    assert_close(datasets(folder / "one" / "run.h5"), datasets(folder / "two" / "run.h5"))
    assert_close(state(folder / "one"), state(folder / "two"))
