"""The demos: one form for all, and in short what their figures show."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import petabatch

DEMOS = Path(__file__).parents[2] / "demos"
SCRIPTS = sorted(DEMOS.glob("*/demo.py"))


def module(file: Path) -> ModuleType:
    """Return a file as a module."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.parent.name)
def test_a_demo_has_one_screen_of_script_in_sections_its_notebook_and_a_page_with_a_figure(
    script: Path,
) -> None:
    name, text = script.parent.name, script.read_text()
    assert re.findall(r"^# (#+ .*)", text, re.M) == ["## Network", "## Run", "## Look"]
    assert len(text.splitlines()) <= 85
    assert text.startswith('"""# ')
    page = (script.parent / "README.md").read_text()
    assert page.startswith(text.partition("\n")[0].removeprefix('"""') + "\n")
    places = [page.index(mark) for mark in ("\n## Network", "\n## Run", "\n## Look")]
    assert places == sorted(places)
    assert f"python demos/{name}/demo.py" in page
    assert f"runs/demos/{name}.png" in page
    assert "](figure.png)" in page
    assert f"]({name}/README.md)" in (DEMOS / "README.md").read_text()
    assert (script.parent / "figure.png").stat().st_size <= 400_000
    written = re.findall(r"savefig\((.*)\)", text)
    assert written == [f'"runs/demos/{name}.png"'], "only update.py changes the figure of the page"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.parent.name)
def test_the_notebook_of_a_demo_is_that_of_its_script(script: Path) -> None:
    made = module(DEMOS / "update.py").notebook(script.read_text())
    kept = script.with_suffix(".ipynb").read_text()
    assert kept == made, "run: python demos/update.py"
    cells = [cell for cell in json.loads(kept)["cells"] if cell["cell_type"] == "code"]
    code = "\n".join("".join(cell["source"]) for cell in cells[1:])  # the first one changes the directory
    assert ast.dump(ast.parse(code)) == ast.dump(ast.Module(ast.parse(script.read_text()).body[1:], []))


def test_notebooks_are_valid() -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed (extra test)")
    for script in SCRIPTS:
        nbformat.validate(nbformat.read(script.with_suffix(".ipynb"), as_version=4))


def test_a_figure_of_a_page_is_replaced_only_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed (extra images)")
    (tmp_path / "runs" / "demos").mkdir(parents=True)
    (tmp_path / "demos" / "one").mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
    image.fromarray(pixels).save(tmp_path / "runs" / "demos" / "one.png")
    monkeypatch.chdir(tmp_path)
    update = module(DEMOS / "update.py")
    monkeypatch.setattr(update, "DEMOS", tmp_path / "demos")
    update.put_figure("one")
    with image.open(tmp_path / "demos" / "one" / "figure.png") as figure:
        np.testing.assert_array_equal(np.asarray(figure), pixels)  # in all its colours


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the demos, in which a demo's files can be written."""
    for name in ("demos", "params"):
        (tmp_path / name).symlink_to(DEMOS.parent / name)
    (tmp_path / "runs" / "demos").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def network_cell(demo: str) -> dict[str, Any]:
    """Return the names that a demo defines in its section on the network, which also writes its data."""
    names: dict[str, Any] = {}
    exec((DEMOS / demo / "demo.py").read_text().partition("# ## Run")[0], names)
    return names


def test_izhikevichs_neurons_spike_as_in_numpy() -> None:
    file = DEMOS / "izhikevich" / "network.toml"
    found = petabatch.in_memory.run(petabatch.load(file, ["run.batch=6", "run.display=200"]).network)
    mine = np.array([sum(len(found.spikes(name, slice=n)) for name in ("exc", "inh")) for n in range(6)])
    spiking = module(DEMOS.parent / "benchmarks" / "spiking.py")
    theirs = spiking.NumPy(6, "matrix").run(200, np.random.default_rng(3))
    error = np.hypot(mine.std(ddof=1), theirs.std(ddof=1)) / 6**0.5
    assert abs(mine.mean() - theirs.mean()) < 4 * error
    assert 800 < mine.mean() < 3000


def test_wilson_cowan_follows_the_equations_to_the_order_of_the_step() -> None:
    integrate = pytest.importorskip("scipy.integrate")
    file = DEMOS / "wilson_cowan" / "network.toml"
    inputs = petabatch.load(file).network.slices
    P, Q = (np.array(inputs[f"layers.{name}.parameters.input"]) for name in "EI")

    def flow(t: float, both: np.ndarray) -> np.ndarray:
        E, I = both.reshape(2, 64)  # noqa: E741

        def s(x: np.ndarray, a: float, c: float) -> np.ndarray:
            return 1 / (1 + np.exp(-a * (x - c))) - 1 / (1 + np.exp(a * c))

        e = -E + (1 - E) * s(16 * E - 12 * I + P, 1.3, 4.0)
        i = -I + (1 - I) * s(15 * E - 3 * I + Q, 2.0, 3.7)
        return np.concatenate([e, i]) / 10

    errors = []
    for dt in (0.05, 0.025):
        params = petabatch.load(file, [f"run.dt={dt}", f"run.display={round(100 / dt)}"])
        found = petabatch.in_memory.run(params.network)
        both = np.concatenate([found.recorded[f"layers/{name}/A"].reshape(-1, 64) for name in "EI"], axis=1)
        time = found.steps["layers/E/A"] * dt
        solved = integrate.solve_ivp(flow, (0, 100), np.zeros(128), t_eval=time, rtol=1e-9, atol=1e-10)
        errors.append(np.abs(both.T - solved.y).max())
    assert errors[1] < 0.02
    assert 1.6 < errors[0] / errors[1] < 2.4


def test_wilson_cowan_oscillates_for_the_inputs_that_are_shaded(tmp_path: Path) -> None:
    params = petabatch.load(DEMOS / "wilson_cowan" / "network.toml")
    run = petabatch.run(params, tmp_path / "run", quiet=True)
    names: dict[str, Any] = {"np": np, "params": params, "run": run}
    look = (DEMOS / "wilson_cowan" / "demo.py").read_text().partition("## Look")[2]
    exec(look.partition("# %%\n")[2].partition("plt.style")[0], names)
    inputs = names["inputs"]
    lasting = [
        (inputs["layers.E.parameters.input"][number], inputs["layers.I.parameters.input"][number])
        for number in np.flatnonzero(names["lasting"])
    ]
    assert lasting == [(1.2, -0.5), (1.2, 0), (1.6, -0.5), (1.6, 0)]
    page = (DEMOS / "wilson_cowan" / "README.md").read_text()
    assert "for four of them oscillations last" in page


def test_the_network_with_conductances_sustains_irregular_activity() -> None:
    short = ["run.batch=1", "run.display=3000"]
    run = petabatch.in_memory.run(petabatch.load(DEMOS / "coba" / "network.toml", short).network)
    for name in ("exc", "inh"):
        spikes = run.spikes(name)
        late = (spikes.times > 200).sum() / spikes.size * 10  # in a second
        assert 14 < late < 24
        assert np.nanmean(spikes.cv()) > 1


def test_hodgkin_huxley_neurons_spike_as_often_as_in_brian() -> None:
    short = ["run.batch=1", "run.display=3000"]
    run = petabatch.in_memory.run(petabatch.load(DEMOS / "hodgkin_huxley" / "network.toml", short).network)
    spikes = run.spikes("exc")
    assert 1000 * spikes.rates.mean() == pytest.approx(36.5, rel=0.15)


@pytest.mark.long
def test_adaptive_exponential_neurons_have_their_patterns_and_begin_to_spike_at_the_rheobase() -> None:
    short = ['output.layers.neuron={every=1,variables=["A"]}']
    found = petabatch.in_memory.run(petabatch.load(DEMOS / "adex" / "network.toml", short).network)
    regular, bursts, fast = (found.spikes("neuron", slice=number).isi[0] for number in range(3))
    assert regular[-1] > 2 * regular[0]  # spikes become rarer
    assert np.ptp(fast[5:]) < 0.1 * fast.mean()  # and here do not
    assert (bursts < 5).any()
    assert bursts.max() > 30
    names = network_cell("adex")
    for a in (0.0, 4.0):
        rheobase = float(names["rheobase"](a, 144.0))
        below, above = names["spikes"](a, 144.0, [rheobase - 12, rheobase + 12])
        assert below == 0
        assert above > 0
    assert names["rheobase"](0.0, 144.0) == pytest.approx(546.0)
    assert names["rheobase"](4.0, 144.0) == pytest.approx(627.2, abs=0.1)


def test_kuramotos_oscillators_have_the_order_parameter_of_theory() -> None:
    couplings = np.array([1.0, 2.4, 4.0])
    key = f"layers.phases.parameters.K={{slices={couplings.tolist()}}}"
    params = petabatch.load(DEMOS / "kuramoto" / "network.toml", ["run.batch=3", "run.display=1600", key])
    found = petabatch.in_memory.run(params.network).recorded
    order = np.hypot(*(found[f"layers/{name}/A"][400:, :, 0, 0, 0] for name in "SC")).mean(axis=0)
    np.testing.assert_allclose(order, np.sqrt(1 - 2 / couplings.clip(2)), atol=0.02)


def test_rates_of_the_spiking_lca_meet_the_lasso(folder: Path) -> None:
    names = network_cell("spiking_lca")
    found = petabatch.in_memory.run(petabatch.load("demos/spiking_lca/network.toml").network)
    exact = names["lasso"](names["features"], names["signals"])
    rates = np.stack([found.spikes("code", slice=number).rates for number in range(names["SIGNALS"])])
    errors = np.linalg.norm(rates - exact, axis=1) / np.linalg.norm(exact, axis=1)
    assert (errors < 0.015).all()
    residual = names["signals"] - exact @ names["features"].T
    pull = residual @ names["features"] - names["THRESHOLD"]  # of the Lasso, at its minimum
    assert abs(pull[exact > 0]).max() < 1e-6
    assert pull.max() < 1e-6


def test_hopfields_memory_recalls_few_patterns_and_not_many(folder: Path) -> None:
    recall = network_cell("hopfield")["recall"]
    shares = {}
    for load in (0.05, 0.09, 0.2):
        patterns, cues, found = recall(load, batch=32)
        assert 0.75 < (patterns * cues).mean() < 0.85
        shares[load] = ((patterns * found).mean(axis=(1, 2)) > 0.95).mean()
    assert shares[0.05] == 1
    assert shares[0.09] > 0.95
    assert shares[0.2] < 0.3


SHORT_FILMS = {
    "warm": ["run.batch=4", "run.displays=3"],
    "cold": ["run.batch=4", "run.displays=3", 'layers.V1.reset="display"'],
}


@pytest.mark.long
def test_a_frame_that_starts_from_the_code_of_the_one_before_takes_fewer_steps(folder: Path) -> None:
    names = network_cell("movies")
    assert names["SPEEDS"][:2] == (0, 0.25)
    energies = {}
    for kind in ("warm", "cold"):
        params = petabatch.load("demos/movies/movies.toml", SHORT_FILMS[kind])
        found = petabatch.in_memory.run(params.network).recorded["probes/energy/total"]
        energies[kind] = found.reshape(3, -1, 4)  # [frame, time, slice]
    assert np.allclose(energies["warm"][0], energies["cold"][0], rtol=1e-3)  # both begin from zero
    least = energies["warm"][1:, -1:]
    steps = {kind: (energy[1:] <= 1.05 * least).argmax(axis=1) for kind, energy in energies.items()}
    assert (steps["warm"][:, :2] == 0).all()  # a still image is coded already
    assert steps["warm"].mean() < 0.5 * np.where(steps["cold"], steps["cold"], 40).mean()


def test_units_that_learned_at_their_place_of_a_face_code_unseen_faces_better(folder: Path) -> None:
    params = network_cell("locally_connected")["params"]
    assert params.network.connections["dictionary"].mode == "non_shared"
    seen = np.load("runs/demos/faces_seen.npy")
    assert seen.shape == (160, 25, 25)
    short = petabatch.load("demos/locally_connected/locally_connected.toml", ["run.displays=160"])
    run = petabatch.run(short, folder / "runs" / "short", quiet=True)
    faces, others = run["probes/evaluate/energy_total"][-1]
    assert faces < 0.95 * others


def test_the_recording_is_fitted_best_by_its_own_inputs() -> None:
    names = network_cell("fitting")
    truth, traces = names["TRUTH"], names["traces"]
    near = truth[:, None] + np.array([[0.0, 0.1, 0.0], [0.0, 0.0, -0.2]])
    errors = ((traces(near) - names["measured"]) ** 2).mean(axis=1)
    assert errors[0] == pytest.approx(0.02**2, rel=0.2)  # the noise
    assert (errors[1:] > 2 * errors[0]).all()


def test_the_numbers_of_a_simulation_tell_its_inputs() -> None:
    pytest.importorskip("sbi", reason="sbi is not installed")
    simulate = network_cell("inference")["simulate"]
    resting, oscillating = simulate(np.array([[0.2, 2.0], [1.45, -0.6]]))
    assert resting[0] < 0.1 < oscillating[0]
    assert 30 < oscillating[2] < 45  # Hz


def test_digits_are_recognised_by_codes_of_a_dictionary_learned_without_a_rate(folder: Path) -> None:
    pytest.importorskip("matplotlib").use("agg")
    names: dict[str, Any] = {}
    exec((DEMOS / "digits" / "demo.py").read_text(), names)
    scores = names["scores"]
    final = [score for name, score in scores.items() if name != "recorded while learning"]
    assert len(final) == 3
    assert min(final) >= 0.948  # of codes by MiniBatchDictionaryLearning
    assert scores["recorded while learning"] < min(final)
    assert names["pipeline"].score(names["vectors"][1200:], names["asked"]) >= 0.948
