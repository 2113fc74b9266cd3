"""Resuming: params, arrays and input files are those of the original run, also from another directory."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import petabatch
from petabatch import cli, simulation
from petabatch.errors import DamagedError, InputError, RunDirectoryError, StoppedEarly
from petabatch.session import RunSession
from petabatch.storage import inputs, provenance
from petabatch.storage.description import recorded_provenance
from petabatch.storage.directory import RunDirectory
from petabatch.storage.provenance import other_software
from support.commands import SMALL, Command

PYTHON = """
import numpy as np
import petabatch
from petabatch.connections import Conv, Identity, Transpose
from petabatch.layers import LCA, Input, Linear
from petabatch.learning import Hebbian
from petabatch.sources import ImageArray
from petabatch.spec.network import ConnectionOutput, Output, Run
from petabatch.weights import L2, Gaussian

network = petabatch.Network(
    run=Run(batch=2, display=5, displays=4),
    layers={
        "image": Input(shape=(8, 8, 1), source=SOURCE),
        "error": Linear(shape=(8, 8, 1)),
        "V1": LAYER(shape=(4, 4, 6), tau=5.0, threshold=0.2),
        "recon": Linear(shape=(8, 8, 1)),
    },
    connections={
        "image_to_error": Identity(pre="image", post="error"),
        "recon_to_error": Identity(pre="recon", post="error", channel="inh", feedback=True),
        "dictionary": Conv(
            pre="V1",
            post="recon",
            patch=(4, 4),
            init=Gaussian(),
            normalize=L2(),
            learn=Hebbian(error="error", rate=0.5),
        ),
        "drive": Transpose(of="dictionary", pre="error", post="V1"),
    },
    output=Output(connections={"dictionary": ConnectionOutput()}, flush="display"),
)
"""


def script(source: str, layer: str = "LCA", before: str = "") -> str:
    return before + PYTHON.replace("SOURCE", source).replace("LAYER", layer)


def weights(folder: Path) -> np.ndarray:
    with petabatch.open(folder) as run:
        assert run.status == "done"
        return run.weights("dictionary")[...]


@pytest.fixture
def pausing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function from whose call on every run stops at its next flush, to be resumed."""
    return lambda: monkeypatch.setattr(RunSession, "_out_of_time", lambda self: True)


def in_pieces(file: Path, out: Path, *overrides: str) -> None:
    """Run a file that pauses, and resume it until it is done."""
    with pytest.raises(StoppedEarly):
        simulation.run(simulation.read(file, overrides), out, quiet=True)
    for _ in range(10):
        try:
            simulation.resume(out, quiet=True)
        except StoppedEarly:
            continue
        return


def images(seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).random((6, 8, 8, 1)).astype(dtype)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    np.save(place / "images.npy", images())
    return place


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("source", "layer", "before"),
    [
        ("ImageArray(file='images.npy')", "LCA", ""),
        ("ImageArray(data=np.load(petabatch_here / 'images.npy'))", "LCA",
         "from pathlib import Path\npetabatch_here = Path(__file__).parent\n"),
        ("ImageArray(file='images.npy')", "Own", "from beside import Own\n"),
        ("ImageArray(file='images.npy')", "Own",
         "from typing import Literal\nfrom petabatch.layers import LCA\n"
         "class Own(LCA):\n    type: Literal['test_own'] = 'test_own'\n"),
    ],
    ids=["relative path", "array in memory", "module beside it", "class of its own"],
)  # fmt: skip
def test_a_python_file_resumes_from_anywhere_with_the_same_bits(
    folder: Path,
    pausing: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    layer: str,
    before: str,
) -> None:
    (folder / "beside.py").write_text("from petabatch.layers import LCA as Own\n")
    file = folder / "net.py"
    file.write_text(script(source, layer, before))
    simulation.run(simulation.read(file), folder / "whole", quiet=True)
    monkeypatch.chdir(folder.parent)
    pausing()
    in_pieces(file, folder / "pieces")
    assert np.array_equal(weights(folder / "whole"), weights(folder / "pieces"))


def test_overrides_of_a_python_file_still_hold_when_it_is_resumed(
    folder: Path, pausing: Callable[[], None]
) -> None:
    file = folder / "net.py"
    file.write_text(script("ImageArray(file='images.npy')"))
    simulation.run(simulation.read(file, ["layers.V1.threshold=0.05"]), folder / "whole", quiet=True)
    pausing()
    in_pieces(file, folder / "pieces", "layers.V1.threshold=0.05")
    assert np.array_equal(weights(folder / "whole"), weights(folder / "pieces"))


def test_a_python_file_is_not_run_again(
    folder: Path, pausing: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder / "net.py"
    file.write_text(
        script("ImageArray(data=np.load(petabatch_here))", before="petabatch_here = 'images.npy'\n")
    )
    monkeypatch.chdir(folder)
    pausing()
    with pytest.raises(StoppedEarly):
        simulation.run(simulation.read(file), folder / "out", quiet=True)
    file.unlink()
    (folder / "images.npy").unlink()
    with pytest.raises(StoppedEarly):
        simulation.resume(folder / "out", quiet=True)
    next((folder / "out" / "data").iterdir()).unlink()
    with pytest.raises(DamagedError, match=r"data/\w+.npy: this file is missing"):
        simulation.resume(folder / "out", quiet=True)


def test_a_network_built_in_python_runs_as_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(script("ImageArray(file='images.npy')"), names)
    petabatch.run(names["network"], Path("out"), quiet=True)
    with petabatch.open("out") as run:
        assert run.params["layers"]["image"]["source"]["file"] == str(folder / "images.npy")


@pytest.fixture
def stopped(folder: Path, pausing: Callable[[], None]) -> Path:
    """A run over three image files, stopped in the middle."""
    (folder / "pictures").mkdir()
    for number in range(3):
        np.save(folder / "pictures" / f"{number}.npy", images(number)[0])
    file = folder / "net.py"
    source = "Images(files='pictures')"
    file.write_text(script(source, before="from petabatch.sources import Images\n"))
    pausing()
    with pytest.raises(StoppedEarly):
        simulation.run(simulation.read(file), folder / "out", quiet=True)
    return folder / "out"


def test_a_run_is_not_resumed_with_changed_images_unless_that_is_allowed(stopped: Path) -> None:
    pictures = stopped.parent / "pictures"
    np.save(pictures / "1.npy", 1 - images(1)[0])
    np.save(pictures / "7.npy", images(7)[0])
    (pictures / "2.npy").unlink()
    before = sorted(stopped.rglob("*.h5"))
    with pytest.raises(InputError) as caught:
        simulation.resume(stopped, quiet=True)
    for kind, name in (("changed", "1.npy"), ("missing", "2.npy"), ("new", "7.npy")):
        assert f"1 {kind}: {pictures / name}" in str(caught.value)
    assert "--changed-input" in (stopped / "log.txt").read_text()
    assert sorted(stopped.rglob("*.h5")) == before
    with pytest.raises(StoppedEarly):
        simulation.resume(stopped, quiet=True, changed_input=True)
    with pytest.raises(StoppedEarly):  # the new fingerprints were recorded
        simulation.resume(stopped, quiet=True)


def test_another_order_of_the_same_images_is_a_changed_input(stopped: Path) -> None:
    pictures = stopped.parent / "pictures"
    for old, new in (("0", "x"), ("1", "0"), ("x", "1")):
        (pictures / f"{old}.npy").rename(pictures / f"{new}.npy")
    with pytest.raises(InputError, match="2 changed"):
        simulation.resume(stopped, quiet=True)
    listed = [inputs.Fingerprint(name, 1, 0, name) for name in "ab"]
    RunDirectory.open(stopped).write("inputs.json", inputs.table(listed))
    with pytest.raises(InputError, match="the same files in another order"):
        inputs.compare(RunDirectory(stopped), listed[::-1], False)


def test_a_new_date_alone_is_a_warning(stopped: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.utime(stopped.parent / "pictures" / "1.npy")
    with caplog.at_level(logging.WARNING, "petabatch"), pytest.raises(StoppedEarly):
        simulation.resume(stopped, quiet=True)
    assert [record.message for record in caplog.records] == [
        f"input files have new modification times but the same content: {stopped.parent}/pictures/1.npy"
    ]


def test_a_changed_byte_in_the_middle_of_a_large_file_is_seen_where_a_block_is_read(tmp_path: Path) -> None:
    file = tmp_path / "large"
    content = np.random.default_rng(0).integers(0, 255, 5 << 20, np.uint8)
    file.write_bytes(content.tobytes())
    before = inputs._fingerprint(str(file))
    content[(5 << 20) // 4 : (5 << 20) // 2] += 1
    file.write_bytes(content.tobytes())
    assert inputs._fingerprint(str(file)).content != before.content
    assert inputs._fingerprint(str(tmp_path / "gone")).size == -1


def test_the_run_file_says_which_input_it_saw(stopped: Path) -> None:
    with petabatch.open(stopped) as run:
        about = run.attributes["inputs"]
    assert about["files"] == 3
    assert about["bytes"] == sum(file.stat().st_size for file in (stopped.parent / "pictures").iterdir())


def test_a_plug_in_that_was_edited_is_a_changed_input(small: Path, pausing: Callable[[], None]) -> None:
    plugin = small.parent / "quiet.py"
    plugin.write_text(
        "from typing import Literal\nfrom petabatch.layers import Linear\n"
        "class Quiet(Linear):\n    type: Literal['test_quiet'] = 'test_quiet'\n"
    )
    small.write_text('plugins = ["quiet.py"]\n' + SMALL.replace('"linear"', '"test_quiet"', 1))
    pausing()
    with pytest.raises(StoppedEarly):
        simulation.run(simulation.read(small), small.parent / "out", quiet=True)
    plugin.write_text(plugin.read_text() + "    # edited\n")
    with pytest.raises(InputError, match=r"1 changed: .*quiet.py"):
        simulation.resume(small.parent / "out", quiet=True)


def test_a_plug_in_that_was_edited_is_not_executed_before_it_is_refused(
    small: Path, pausing: Callable[[], None]
) -> None:
    plugin, executed = small.parent / "silent.py", small.parent / "executed"
    plugin.write_text(
        "from typing import Literal\nfrom petabatch.layers import Linear\n"
        "class Silent(Linear):\n    type: Literal['test_silent'] = 'test_silent'\n"
        + f"# {'far from both ends ' * 20}\n"
        * 100
    )
    small.write_text('plugins = ["silent.py"]\n' + SMALL.replace('"linear"', '"test_silent"', 1))
    pausing()
    with pytest.raises(StoppedEarly):
        simulation.run(simulation.read(small), small.parent / "out", quiet=True)
    lines = plugin.read_text().splitlines()
    slipped_in = f"open({str(executed)!r}, 'w')  # "
    lines[50] = slipped_in + "-" * (len(lines[50]) - len(slipped_in))
    plugin.write_text("\n".join(lines) + "\n")
    sys.modules.pop(next(name for name in sys.modules if name.startswith("petabatch_plugin_silent")))
    with pytest.raises(InputError, match=r"not executed\n.*1 changed: .*silent.py"):
        simulation.resume(small.parent / "out", quiet=True)
    assert not executed.exists()
    plugin.unlink()
    with pytest.raises(InputError, match=r"1 missing: .*silent.py"):
        simulation.resume(small.parent / "out", quiet=True)


def test_other_libraries_than_before_are_named(stopped: Path) -> None:
    before = recorded_provenance(RunDirectory(stopped))
    assert before is not None
    assert other_software(before, before) == []
    numpy, features = before["libraries"]["numpy"], before["compiler"]["CPU features"].split()
    compiler = {
        **before["compiler"],
        "LLVM": "1.0",
        "CPU": "i486",
        "CPU features": " ".join([*features[1:], "new"]),
    }
    libraries = {**before["libraries"], "numpy": "0.1"}
    found = other_software(
        before, {**before, "libraries": libraries, "blas": ["other"], "compiler": compiler}
    )
    assert [line.split()[0] for line in found] == ["BLAS", "CPU", "CPU", "LLVM", "numpy"]
    assert found[2] == f"CPU features {features[0]}, now new"
    assert found[4] == f"numpy {numpy}, now 0.1"
    changed = {**before, "libraries": libraries, "blas": ["other"], "compiler": compiler}
    assert other_software(before, changed, portable=True) == [found[3], found[4]]
    unfused = {**before, "compiler": {**before["compiler"], "kernels for": "x86-64-v2"}}
    (line,) = other_software(unfused, before, portable=True)
    assert line.startswith("kernels for x86-64-v2, now ")


@pytest.mark.parametrize("fused", [True, False])
def test_another_processor_than_before_is_named_on_resume_unless_it_has_the_same_bits(
    stopped: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fused: bool
) -> None:
    """Kernels for one without fused multiply-adds round differently."""
    if not fused:
        monkeypatch.setattr("petabatch.assembly.target", lambda: "x86-64-v2")
    with petabatch.open(stopped) as run:
        assert run.attributes["compiler"] == provenance.compiler()
    before = provenance.compiler()["CPU"]
    monkeypatch.setenv("NUMBA_CPU_NAME", "x86-64-v2")
    monkeypatch.setattr(logging.getLogger("petabatch"), "propagate", True)
    with pytest.raises(StoppedEarly):
        simulation.resume(stopped, quiet=True)
    assert (f"rounding: CPU {before}, now x86-64-v2" in caplog.text) != fused


def test_the_log_of_a_run_ends_with_what_ended_it(small: Path, petabatch: Command) -> None:
    values = np.load(small.parent / "images.npy").astype(float)
    values[len(values) // 2] = np.nan
    np.save(small.parent / "images.npy", values)
    ended = petabatch("run", small, "--out", "out", "-q")
    assert ended.returncode == 1
    assert ended.stderr.strip().splitlines()[0] in (small.parent / "out" / "log.txt").read_text()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError("Unable to allocate 3 PiB"), "not enough memory: Unable to allocate 3 PiB"),
        (PermissionError(13, "Permission denied", "net.svg"), "net.svg: Permission denied"),
    ],
)
def test_what_the_machine_refuses_is_a_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, said: str
) -> None:
    def refused(**options: Any) -> None:
        raise error

    monkeypatch.setattr(cli, "app", refused)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert said in capsys.readouterr().err


def test_a_run_is_not_resumed_in_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    directory = RunDirectory.create(tmp_path / "out", "")
    directory.log.unlink()
    directory.log.mkdir()
    with pytest.raises(RunDirectoryError, match=r"log.txt: cannot be written: Is a directory"):
        simulation.resume(directory.path, quiet=True)
