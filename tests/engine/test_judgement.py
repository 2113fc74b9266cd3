"""The steps at which it is judged whether numbers are finite, what is judged, and which step is named."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import petabatch
from petabatch import in_memory, weights
from petabatch.connections import Sparse
from petabatch.engine.assembly import Assembly
from petabatch.engine.driver import drive
from petabatch.engine.failure import Failure
from petabatch.errors import NonFiniteError, StoppedEarly
from petabatch.layers import Neurons
from petabatch.network import periods
from petabatch.network.build import build
from petabatch.network.plan import Plan, schedule
from petabatch.parallel.comm import Comm, Serial
from petabatch.session import RunSession
from petabatch.spec.network import Checkpoint, LayerOutput, Network, Output, Run
from petabatch.spec.over_time import OverTime
from petabatch.spec.schedule import Every
from petabatch.spec.sweep import Sweep
from petabatch.storage.checkpoint import checkpoint_steps
from petabatch.storage.directory import RunDirectory
from support.gpu_emulation import EmulatedGpu
from support.gpu_runs import simulate
from support.mpirun import mpirun
from support.networks import flush, images, lca_network
from support.rank_threads import on_threads

KERNELS: dict[str, dict[str, Any]] = {
    "compiled": {},
    "array": {"kernel": "array"},
    "float64": {"precision": "float64"},
}
CURRENT = "layers.n.parameters.I"
CURRENTS = [2.8, 3.2, 4.0, 4.8]
"""Some fail in each kernel, and some overflow in a spike and go on."""
AT_5 = ("dm/dt = 1/(t-5)", 6)
"""An equation, and the step since which it is infinite."""


def one(equations: str, steps: int = 40, run: dict[str, Any] | None = None, **keys: Any) -> Network:
    """Return a layer of two neurons with these equations."""
    return Network(
        run=Run(**{"steps": steps, "dt": 1.0} | (run or {})),
        layers={"n": Neurons(shape=(1, 1, 2), equations=equations, **keys)},
    )


def exponential(current: float = 2.0, **run: Any) -> Network:
    """Return exponential integrate-and-fire neurons, whose upstroke overflows within a step."""
    net = one(
        "dv/dt = -(v+65)/10 + 2*exp((v+50)/2)/10 + I",
        300,
        {"dt": 0.1} | run,
        parameters={"I": current},
        start={"v": -65.0},
        spike="v > 30",
        reset="v = -65",
    )
    every = Every(7, "steps")
    return net.model_copy(update={"output": Output(layers={"n": LayerOutput(every=every, variables=("v",))})})


@pytest.fixture
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge small networks every 100 steps."""
    monkeypatch.setattr(periods, "JUDGED_OPERATIONS", 5e4)


def test_what_is_judged_follows_from_the_shapes_of_a_slice_alone() -> None:
    def plan(net: Network, **run: Any) -> Plan:
        return schedule(build(net.model_copy(update={"run": net.run.model_copy(update=run)})))

    net = exponential()
    expected = plan(net).judgement
    assert expected > net.run.length
    for run in ({"batch": 300}, {"kernel": "array"}, {"precision": "float64"}, {"display": 7}, {"steps": 77}):
        assert plan(net, **run).judgement == expected
    wide = net.model_copy(
        update={"layers": {"n": net.layers["n"].model_copy(update={"shape": (1, 1, 9000)})}}
    )
    assert plan(wide).judgement == 1000
    assert plan(lca_network(images(2), display=30)).judgement == 30
    found = plan(wide, steps=3500)
    assert [step for step in range(1, 3501) if found.judges(step)] == [1000, 2000, 3000, 3500]
    assert [found.next_judgement(step) for step in (0, 999, 1000, 3400)] == [1000, 1000, 2000, 3500]
    assert [found.judged_before(step) for step in (1, 1000, 1001, 3500)] == [0, 0, 1000, 3000]


@pytest.mark.usefixtures("_often")
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_same_points_fail_at_the_same_steps_however_they_are_made(kernel: str, tmp_path: Path) -> None:
    """Alone, in a batch with other sync events, in waves, in calls, with the bits of those that do not."""
    keys = KERNELS[kernel]
    alone: dict[float, tuple[str, bytes]] = {}
    for current in CURRENTS:
        try:
            alone[current] = "", in_memory.run(exponential(current, **keys)).recorded["layers/n/v"].tobytes()
        except NonFiniteError as error:
            alone[current] = str(error).partition("\n")[0], b""
    assert 0 < sum(not said for said, _ in alone.values()) < len(CURRENTS)
    swept = exponential(**keys).model_copy(update={"sweep": Sweep(table={CURRENT: CURRENTS})})
    pooled = exponential(batch=len(CURRENTS), pool=True, **keys)
    pool = {"run": pooled.run, "slices": {CURRENT: CURRENTS}, "sweep": None}
    failed: list[list[int]] = []
    for name, more in (
        ("batch", {}),
        ("checkpoints", {"checkpoint": Checkpoint(every=Every(13, "steps"), keep=1)}),
        ("flushes", {"output": swept.output.model_copy(update={"flush": Every(29, "steps")})}),
        ("waves", {"sweep": swept.sweep.model_copy(update={"wave": 3})}),
        ("pool", pool),
    ):
        with petabatch.run(
            swept.model_copy(update=more), tmp_path / name, quiet=True, mpi=False, threads=1
        ) as run:
            failed.append(run.coordinates["failed"].tolist() if run.failed else [-1] * len(CURRENTS))
            why = run.attributes.get("points", {}).get("why", {})
            values = run["layers/n/v"][...]
        for place, current in enumerate(CURRENTS):
            said, bits = alone[current]
            assert bool(said) == (failed[-1][place] >= 0), (name, current)
            if said:
                assert failed[-1][place] % 100 == 0
                step = said.rpartition(" ")[2]
                assert why[str(place)].endswith(("finite", f"since step {step}"))
            else:
                assert values[:, place : place + 1].tobytes() == bits
    assert all(one == failed[0] for one in failed)
    for point in petabatch.sweep(swept):
        assert bool(point.failed) == bool(alone[CURRENTS[point.number]][0])
    for current, (said, _) in alone.items():
        assert in_calls(exponential(current, **keys)) == said


def in_calls(net: Network) -> str:
    """Return what a simulator says that goes through a run in calls of seven steps; nothing if it ends."""
    with petabatch.Simulator(net) as sim:
        try:
            while sim.n_steps < net.run.length:
                sim.step(min(7, net.run.length - sim.n_steps))
        except NonFiniteError as error:
            return str(error).partition("\n")[0]
    return ""


@pytest.mark.usefixtures("_often")
def test_a_batch_that_is_resumed_names_the_same_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two judgements, with the last finite state and what is on its way in the checkpoint."""
    net = exponential()
    around = Sparse(
        pre="n", post="n", target="v", number=1, init=weights.Constant(value=0.1), feedback=True,
        delays=weights.Constant(value=0.5),
    )  # fmt: skip
    swept = Sweep(values={CURRENT: CURRENTS})
    net = net.model_copy(update={"connections": {"around": around}, "sweep": swept})

    def made(name: str, step: int) -> tuple[Any, bytes]:
        with monkeypatch.context() as patched:
            patched.setattr(RunSession, "_out_of_time", lambda session: session.engine.step == step)
            often = net.model_copy(update={"checkpoint": Checkpoint(every=Every(25, "steps"))})
            try:
                run = petabatch.run(often, tmp_path / name, quiet=True, mpi=False)
            except StoppedEarly:
                run = petabatch.resume(tmp_path / name, quiet=True, mpi=False)
        with run:
            return run.attributes["points"], run["layers/n/v"][...].tobytes()

    whole = made("whole", -1)
    assert sum("since step" in why for why in whole[0]["why"].values()) > 1
    for step in (50, 125):
        assert made(f"stopped at {step}", step) == whole


@pytest.mark.usefixtures("_often")
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_on_ranks_the_same_slices_stop(ranks: int) -> None:
    net = exponential().model_copy(update={"sweep": Sweep(values={CURRENT: CURRENTS})})

    def failures(comm: Comm) -> dict[int, Failure]:
        engine = Assembly.of(net, comm, 1).planned(tolerant=True).engine()
        engine.start()
        for step in drive(engine):
            list(flush(engine, step))
        return engine.failures

    found = {number: one for mine in on_threads(ranks, failures) for number, one in mine.items()}
    alone: dict[int, Failure] = {}
    for number, current in enumerate(CURRENTS):
        own = exponential(current).model_copy(update={"sweep": Sweep(values={CURRENT: [current]})})
        engine = Assembly.of(own, Serial(), 1).planned(tolerant=True).engine()
        engine.start()
        for step in drive(engine):
            list(flush(engine, step))
        for failure in engine.failures.values():
            alone[number] = failure
    assert found == alone
    assert len(found) > 1


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_unit_that_has_spiked_is_judged_after_its_reset(kernel: str) -> None:
    run = KERNELS[kernel]
    steep: dict[str, Any] = {
        "equations": "dv/dt = 1e30*v*v\ndw/dt = -w",
        "start": {"v": 1e10},
        "spike": "v > 1",
    }

    def ends(reset: str, steps: int, **keys: Any) -> str:
        try:
            in_memory.run(
                one(
                    **{**steep, **keys},
                    reset=reset,
                    steps=steps,
                    run={**run, "dt": 1e300 if kernel == "float64" else 1.0},
                    method="euler",
                )
            )
        except NonFiniteError as error:
            return str(error).partition("\n")[0]
        return ""

    assert ends("v = 0; w += 1", 1) == ""
    assert ends("v = 0; w += 1", 2) == ""
    assert "v of layer n of slice 0 is no longer finite at step 1" in ends("w += 1", 1)
    assert "v of layer n" in ends("v += 1", 1)
    assert "v of layer n" in ends("v = w / w", 1)
    assert "w of layer n" in ends("v = 0; w = 1 / (t - t)", 1)
    assert ends("v = 0", 1, refractory=5.0) == ""


def test_what_is_gone_at_the_end_of_a_step_that_is_judged_ends_no_run(tmp_path: Path) -> None:
    net = one("dm/dt = -m", 9, {"display": 1}, activity="1/(t-5)")
    passing = net.model_copy(update={"checkpoint": Checkpoint(every="step", keep=99)})
    with petabatch.run(passing, tmp_path / "run", quiet=True, mpi=False) as run:
        assert run.status == "done"
    steps = checkpoint_steps(RunDirectory.open(tmp_path / "run"))
    assert set(range(10)) - set(steps) == {6}


@pytest.mark.usefixtures("_often")
def test_a_run_that_ends_leaves_the_checkpoint_before(tmp_path: Path) -> None:
    net = one(AT_5[0], 300, {"display": 1}).model_copy(
        update={"checkpoint": Checkpoint(every=Every(4, "steps"), keep=99)}
    )
    with pytest.raises(NonFiniteError, match="layer n of slice 0 is no longer finite at step 6\n"):
        petabatch.run(net, tmp_path / "run", quiet=True, mpi=False)
    assert checkpoint_steps(RunDirectory.open(tmp_path / "run")) == [0, 4]
    with pytest.raises(NonFiniteError, match="layer n of slice 0 is no longer finite at step 6\n"):
        petabatch.resume(tmp_path / "run", quiet=True, mpi=False)


@pytest.mark.usefixtures("_often")
def test_a_run_that_is_stopped_is_resumed_from_the_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    net = one(
        "dm/dt = -m", 60, {"display": 1}, activity="int(t < 9 or t > 19) / (t - t + int(t < 9 or t > 19))"
    )
    net = net.model_copy(update={"output": Output(layers={"n": LayerOutput()}, flush=Every(5, "steps"))})
    whole = petabatch.run(net, tmp_path / "whole", quiet=True, mpi=False)
    with monkeypatch.context() as patched:
        patched.setattr(RunSession, "_out_of_time", lambda session: session.engine.step >= 15)
        with pytest.raises(StoppedEarly, match="stopped at step 15 of 60"):
            petabatch.run(net, tmp_path / "run", quiet=True, mpi=False)
    assert (
        "no checkpoint is written at step 15: layer n of slice 0 is no longer finite at step 15"
        in caplog.text
    )
    assert checkpoint_steps(RunDirectory.open(tmp_path / "run")) == [0]
    again = petabatch.resume(tmp_path / "run", quiet=True, mpi=False)
    with whole, again:
        assert again["layers/n/A"][...].tobytes() == whole["layers/n/A"][...].tobytes()
        assert again.status == "done"


@pytest.mark.mpi
def test_a_checkpoint_that_another_rank_prevents_is_told(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    file.write_text(
        '[run]\nsteps = 20\nbatch = 2\n[layers.n]\ntype = "neurons"\nshape = [1, 1, 1]\n'
        'equations = "dm/dt = 1/(t-k)"\nparameters = { k = 99.0 }\n[slices]\n'
        '"layers.n.parameters.k" = [99.0, 7.0]\n[checkpoint]\nevery = "5 steps"\n'
    )
    done = mpirun(2, "-m", "petabatch", "run", file, "--out", tmp_path / "run", "--mpi", "--quiet")
    assert done.returncode == 1
    assert "no checkpoint is written at step 10: m of layer n of slice 1 is no longer finite" in done.stderr
    assert "m of layer n of slice 1 is no longer finite at step 8\n" in done.stderr
    assert checkpoint_steps(RunDirectory.open(tmp_path / "run")) == [0, 5]


@pytest.mark.usefixtures("_often")
@pytest.mark.parametrize(
    "how",
    [*KERNELS.values(), {"device": "gpu"}, {"display": 10}, {"steps": 1000}, {"steps": 7}, {"batch": 3}],
    ids=str,
)
def test_the_step_in_which_it_began_is_named(how: dict[str, Any]) -> None:
    net = one(AT_5[0], run=how)
    net = net.model_copy(update={"output": Output(layers={"n": LayerOutput(every=Every(3, "steps"))})})
    make = partial(simulate, device=EmulatedGpu()) if net.run.device == "gpu" else in_memory.run
    with pytest.raises(NonFiniteError, match=f"slice 0 is no longer finite at step {AT_5[1]}\n") as ended:
        make(net)
    assert ended.value.step == AT_5[1]
    assert "divides by what may become 0" in str(ended.value)


@pytest.mark.usefixtures("_often")
@pytest.mark.parametrize(
    ("equations", "start", "told"),
    [
        ("dv/dt = -v / tau", 1.0, "divides by tau, which is 0"),
        ("dv/dt = g * v\ng = 1 / tau", 1.0, "divides by tau, which is 0"),
        ("dv/dt = v ** -1", 0.0, "a negative power of what may become 0"),
        ("dv/dt = v ** 0.5", -1.0, r"as in max\(x, 0\) \*\* 0.5"),
        ("dv/dt = sqrt(v)", -1.0, r"may become negative: bound it, as in sqrt\(max\(x, 0\)\)"),
        ("dv/dt = log(v)", -1.0, "the log of what may become 0 or less"),
        ("dv/dt = v + log(tau)", 0.0, "the log of what is 0 or less"),
        ("dv/dt = sqrt(abs(v)) * v + log(1 + tau)", 9.0, "may grow without bound"),
    ],
)
def test_the_hint_tells_of_divisors_powers_and_functions_without_a_value(
    equations: str, start: float, told: str
) -> None:
    with pytest.raises(NonFiniteError, match=told):
        in_memory.run(one(equations, start={"v": start}, parameters={"tau": 0.0}))


@pytest.mark.usefixtures("_often")
@pytest.mark.parametrize("began", [1, 2, 10, 11, 12, 20, 21, 99, 100, 101, 110, 111, 198, 211])
def test_it_is_found_wherever_it_is_in_the_strides_in_which_it_is_looked_for(began: int) -> None:
    with pytest.raises(NonFiniteError) as ended:
        in_memory.run(one(f"dm/dt = 1/(t-{began - 1})", 212))
    assert ended.value.step == began


@pytest.mark.usefixtures("_often")
@pytest.mark.parametrize("delays", [0.0, 3.0])
@pytest.mark.parametrize("change", [0, 3, 40])
def test_it_is_that_in_which_an_engine_of_single_steps_finds_it(delays: float, change: int) -> None:
    """With what is on its way over delays, noise, values over time, and a state that was changed by hand."""
    net = one(
        "dv/dt = 0.03*v*v + x/6 + 0.05*xi\ndx/dt = -x/9 + g",
        260,
        parameters={"g": 0.01},
        start={"v": weights.Uniform(low=0.1, high=0.2)},
        activity="v",
    )
    around = Sparse(
        pre="n", post="n", target="x", number=1, init=weights.Constant(value=0.02), feedback=True,
        delays=weights.Constant(value=delays),
    )  # fmt: skip
    net = net.model_copy(
        update={
            "connections": {"around": around},
            "over_time": {"layers.n.parameters.g": OverTime(at=[20, 33], values=[0.02, 0.05], by="step")},
        }
    )

    def changed(sim: petabatch.Simulator) -> None:
        sim.step(change)
        if change:
            sim["n"]["x"] = 0.3

    def finite(sim: petabatch.Simulator) -> bool:
        return bool(np.isfinite(sim["n"]["v"]).all() and np.isfinite(sim["n"]["x"]).all())

    with petabatch.Simulator(net) as sim:
        changed(sim)
        while finite(sim) and sim.n_steps < 250:
            sim.step(1)
        began = sim.n_steps
    assert 40 < began < 250
    assert began % 100
    with petabatch.Simulator(net) as sim:
        changed(sim)
        with pytest.raises(NonFiniteError, match=rf"of slice 0 is no longer finite at step {began}\n"):
            sim.run(250, quiet=True)


@pytest.mark.usefixtures("_often")
def test_where_steps_cannot_be_made_again_the_last_finite_one_is_named() -> None:
    """As of images, which come from outside."""
    net = lca_network(images(1), display=20, displays=3, learn=False)
    fails = {"recon_to_error": net.connections["recon_to_error"].model_copy(update={"strength": -4.0})}
    net = net.model_copy(update={"connections": {**net.connections, **fails}})
    assert not schedule(build(net)).retraces
    net = net.model_copy(update={"run": net.run.model_copy(update={"displays": 20})})
    with pytest.raises(NonFiniteError) as ended:
        in_memory.run(net)
    found = re.search(r"is no longer finite at step (\d+); it was at step (\d+)\n", str(ended.value))
    assert found is not None
    assert int(found[1]) == int(found[2]) + 20


@pytest.mark.parametrize(
    ("equations", "hint"),
    [
        ("dv/dt = 1/(v-v)", "keep the divisor away from 0"),
        ("dv/dt = m\nm = 0.1*(v+40)/(1-exp(-(v+40)/10))*0 + 1/v", "exprel"),
        ("dv/dt = exp(v*tau)/tau + 90", r"exp\(min\(x, 20\)\)"),
        ("dv/dt = v*v/tau + 1e19", "may grow without bound"),
    ],
)
def test_the_hint_is_for_what_the_equation_is_made_of(equations: str, hint: str) -> None:
    with pytest.raises(NonFiniteError, match=hint):
        in_memory.run(one(equations, parameters={"tau": 2.0}, run={"kernel": "array"}, method="euler"))


def test_check_tells_of_stages_that_run_away_beyond_the_threshold() -> None:
    def told(method: str = "auto", **keys: Any) -> bool:
        (layer,) = one(**{"spike": "v > 0", **keys}, method=method).layers.values()
        return any("run away" in line for line in layer.remarks(0.5))

    steep = "dv/dt = (exp(({}) / 2) - v) / 9"
    assert told(equations=steep.format("v + 50"))
    assert told("heun", equations="dv/dt = a\na = exp(v * 2 + 50)")
    assert not told("euler", equations=steep.format("v + 50"))
    assert not told(equations=steep.format("min(v + 50, 30)"))
    assert not told(equations=steep.format("v + 50"), spike="v > -60")
    assert not told(equations="dv/dt = 0.04 * v * v + 5 * v + 140", spike="v > 30")
