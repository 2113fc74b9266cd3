"""Plots and the plotting scripts."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import matplotlib as mpl
import numpy as np
import pytest

from petabatch import plotting
from petabatch.errors import InputError, ResourceError

mpl.use("agg")
ANALYSIS = Path(__file__).parents[2] / "analysis"
RNG = np.random.default_rng(0)

PARAMS = """
[run]
batch = 3
display = 4
displays = 2
kernel = "array"

[layers]
image = { type = "input", shape = [16, 16, 3], source = { type = "photographs", normalize = "standard" } }
error = { type = "linear", shape = [16, 16, 3] }
V1 = { type = "lca", shape = [8, 8, 6], tau = 5.0, threshold = 0.1 }
recon = { type = "linear", shape = [16, 16, 3] }

[connections]
image_to_error = { type = "identity", pre = "image", post = "error" }
recon_to_error = { type = "identity", pre = "recon", post = "error", channel = "inh", feedback = true }
error_to_V1 = { type = "transpose", of = "dictionary", pre = "error", post = "V1" }

[connections.dictionary]
type = "conv"
pre = "V1"
post = "recon"
patch = [4, 4]
init = { type = "patches", source = { type = "photographs" } }
normalize = { type = "l2" }
learn = { type = "hebbian", error = "error", rate = 1.0 }

[probes]
energy = { type = "energy", error = "error", code = "V1", coefficient = 0.1 }
quality = { type = "psnr", image = "image", reconstruction = "recon" }

[output]
layers = { image = {}, V1 = {}, recon = {} }
connections = { dictionary = {} }
"""


@pytest.fixture(autouse=True)
def _close() -> Any:
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def pixels(axes: Any) -> np.ndarray:
    return np.asarray(axes.images[0].get_array())


def test_the_tableau_is_sorted_by_use_and_scaled_by_each_feature_about_grey() -> None:
    weights = RNG.normal(size=(6, 4, 4, 3))
    use = np.array([0.1, 0.5, 0.0, 0.3, 0.2, 0.4])
    weights[2] = 0
    top, below = plotting.dictionary(weights, use, columns=3).axes
    shown = pixels(top)
    assert shown.shape == (9, 14, 3)
    expected = 0.5 + 0.5 * weights[1] / np.abs(weights[1]).max()
    np.testing.assert_allclose(shown[:4, :4], expected)
    assert (shown[5:, 10:] == 0.5).all()  # the unused feature of zeros comes last
    np.testing.assert_allclose([bar.get_height() for bar in below.patches], [50, 40, 30, 20, 10, 0])


def test_reconstructions_share_the_scale_of_their_input_and_the_error_is_grey_at_zero() -> None:
    image = RNG.normal(size=(2, 5, 6, 3))
    recon = image.copy()
    recon[1, 0, 0, 0] -= 0.25 * (image[1].max() - image[1].min())
    axes = plotting.reconstructions(image, recon, labels=["a", "b"]).axes
    assert np.array_equal(pixels(axes[0]), pixels(axes[1]))
    assert (pixels(axes[0]).min(), pixels(axes[0]).max()) == (0, 1)
    assert (pixels(axes[2]) == 0.5).all()
    error = pixels(axes[5])
    assert error[0, 0, 0] == pytest.approx(0.75)
    assert (np.delete(error.ravel(), 0) == 0.5).all()
    texts = [text.get_text() for a in axes for text in a.texts]
    assert "PSNR inf dB" in texts
    assert f"PSNR {20 * np.log10(4 * np.sqrt(5 * 6 * 3)):.1f} dB" in texts


def test_psnr_is_what_the_probe_measures() -> None:
    from petabatch.probes.psnr import PSNR

    layers = {"image": RNG.normal(size=(3, 4, 5, 2)), "recon": RNG.normal(size=(3, 4, 5, 2))}
    measured = PSNR(image="image", reconstruction="recon").measure(lambda name, _: layers[name], np)["psnr"]
    found = [plotting.psnr(*pair) for pair in zip(layers["image"], layers["recon"], strict=True)]
    np.testing.assert_allclose(found, measured)


def test_energy_draws_the_mean_and_the_spread_of_the_slices() -> None:
    steps, total, part = np.arange(1, 6), RNG.random((5, 8)), RNG.random((5, 8))
    (axes,) = plotting.energy(steps, total, {"residual": part}, display=4).axes
    for line, values in zip(axes.lines, (total, part), strict=True):
        assert np.array_equal(line.get_xdata(), steps)
        np.testing.assert_allclose(line.get_ydata(), values.mean(axis=1))
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() == pytest.approx(np.percentile(total, 90, axis=1).max())
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["total", "residual"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plotting.dictionary(np.zeros((4, 3, 3, 2))),
        lambda: plotting.dictionary(np.zeros((3, 3, 3))),
        lambda: plotting.reconstructions(np.zeros((2, 4, 4, 1)), np.zeros((3, 4, 4, 1))),
        lambda: plotting.energy([1, 2, 3], np.zeros((2, 4))),
    ],
)
def test_arrays_that_cannot_be_drawn_are_errors_that_show_their_shape(draw: Any) -> None:
    with pytest.raises(InputError, match=r"found: +\["):
        draw()


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_suffix_chooses_the_format(tmp_path: Path, suffix: str, start: bytes) -> None:
    import matplotlib.pyplot as plt

    before = dict(mpl.rcParams)
    plotting.finish(plotting.energy([1, 2], np.ones((2, 3))), tmp_path / "new" / f"x.{suffix}")
    assert (tmp_path / "new" / f"x.{suffix}").read_bytes().startswith(start)
    assert dict(mpl.rcParams) == before
    assert not plt.get_fignums()


def test_an_unknown_suffix_and_a_missing_screen_are_errors(tmp_path: Path) -> None:
    figure = plotting.energy([1, 2], np.ones((2, 3)))
    with pytest.raises(InputError, match=r"(?s)found: +foo.*png"):
        plotting.finish(figure, tmp_path / "x.foo")
    with pytest.raises(ResourceError, match="-o"):
        plotting.finish(figure)


def test_importing_plotting_loads_neither_matplotlib_nor_the_simulator() -> None:
    code = "import sys, petabatch.plotting; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "petabatch.plotting" in loaded.split()
    assert not {"matplotlib", "h5py", "numba", "petabatch.engine", "petabatch.spec"} & set(loaded.split())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from petabatch import simulation

    folder = tmp_path_factory.mktemp("plots")
    (folder / "net.toml").write_text(PARAMS)
    simulation.run(simulation.read(folder / "net.toml"), folder / "out", threads=1, mpi=False, quiet=True)
    return folder / "out"


@pytest.mark.parametrize(
    ("script", "options"),
    [
        ("dictionary", []),
        ("dictionary", ["--time", "0", "--columns", "2"]),
        ("reconstructions", []),
        ("reconstructions", ["--step", "4", "--slices", "2", "0"]),
        ("energy", []),
        ("energy", ["--probe", "quality", "--quantities", "psnr", "--log"]),
    ],
)
def test_the_scripts_draw_a_run(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, options: list[str]
) -> None:
    monkeypatch.syspath_prepend(str(ANALYSIS))
    monkeypatch.setattr(sys, "argv", [script, str(run), "-o", str(tmp_path / "x.png"), *options])
    runpy.run_path(str(ANALYSIS / f"plot_{script}.py"), run_name="__main__")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("script", "options", "message"),
    [
        ("dictionary", ["--connection", "dictionar"], "did you mean dictionary"),
        ("reconstructions", ["--step", "3"], "expected: one of 4, 8"),
        ("reconstructions", ["--slices", "3"], "slices from 0 to 2"),
        ("energy", ["--probe", "energie"], "did you mean energy"),
        ("dictionary", ["--time", "99"], "time 99 of"),
        ("dictionary", ["--slice", "3"], "slices from 0 to 2"),
        ("dictionary", ["-o", "/proc/x.png"], "/proc/x.png: the figure cannot be written: No such file"),
    ],
)
def test_the_scripts_say_what_is_there_when_something_is_not(
    run: Path, monkeypatch: pytest.MonkeyPatch, script: str, options: list[str], message: str
) -> None:
    monkeypatch.syspath_prepend(str(ANALYSIS))
    monkeypatch.setattr(sys, "argv", [script, str(run), *options])
    with pytest.raises(SystemExit, match=message):
        runpy.run_path(str(ANALYSIS / f"plot_{script}.py"), run_name="__main__")


@pytest.mark.parametrize(
    ("script", "option"),
    [("dictionary", "--last"), ("dictionary", "--columns"), ("reconstructions", "--rows")],
)
def test_the_scripts_refuse_counts_below_one(
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    script: str,
    option: str,
) -> None:
    monkeypatch.syspath_prepend(str(ANALYSIS))
    monkeypatch.setattr(sys, "argv", [script, str(run), option, "0"])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(str(ANALYSIS / f"plot_{script}.py"), run_name="__main__")
    assert f"argument {option}: 0 is not a number of at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("script", ["dictionary", "energy", "reconstructions"])
@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("nowhere", "there is no such run directory or file"),
        ("empty", "this is not a run directory: it has no run.h5"),
        ("text.h5", "this is not a run file: it is not in HDF5"),
        ("foreign.h5", "not a run file of this version of petabatch"),
    ],
)
def test_the_scripts_refuse_what_is_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, what: str, message: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.h5").write_text("no run")
    with h5py.File(tmp_path / "foreign.h5", "w") as file:
        file["a"] = 1
    monkeypatch.syspath_prepend(str(ANALYSIS))
    monkeypatch.setattr(sys, "argv", [script, str(tmp_path / what)])
    with pytest.raises(SystemExit, match=message):
        runpy.run_path(str(ANALYSIS / f"plot_{script}.py"), run_name="__main__")


def test_the_scripts_draw_a_run_too_short_for_its_schedules_or_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from petabatch import simulation

    seldom = '{ every = "10 displays" }'
    params = PARAMS.replace("image = {}, V1 = {}", f"image = {{}}, V1 = {seldom}")
    (tmp_path / "net.toml").write_text(params.replace("recon = {} }", f"recon = {seldom} }}"))
    run = simulation.read(tmp_path / "net.toml")
    simulation.run(run, tmp_path / "out", threads=1, mpi=False, quiet=True)
    monkeypatch.syspath_prepend(str(ANALYSIS))
    monkeypatch.setattr(sys, "argv", ["dictionary", str(tmp_path / "out"), "-o", str(tmp_path / "x.png")])
    runpy.run_path(str(ANALYSIS / "plot_dictionary.py"), run_name="__main__")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setattr(sys, "argv", ["reconstructions", str(tmp_path / "out")])
    with pytest.raises(SystemExit, match="no step that is recorded of both"):
        runpy.run_path(str(ANALYSIS / "plot_reconstructions.py"), run_name="__main__")
