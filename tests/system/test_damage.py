"""Damaged files of a run: refused with their names, or their content computed again; never used."""

from __future__ import annotations

import itertools
import logging
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import h5py
import pytest

import petabatch as pb
from petabatch import simulation
from petabatch.errors import DamagedError, RunDirectoryError
from petabatch.report import information, integrity
from petabatch.storage import hdf5
from petabatch.storage.directory import RunDirectory
from petabatch.storage.merge import merge
from petabatch.storage.prune import prune
from petabatch.storage.seal import verify
from petabatch.storage.verify import file_states
from support import damage_pairs
from support.commands import Command, alone, contents
from support.damage import KINDS, PAIR, campaign, flip, resume, segment


def part(folder: Path, step: int) -> Path:
    return next((folder / "checkpoints").glob(f"step_{step:09d}_rank_*"))


def assert_same_results(folder: Path, runs: Path) -> None:
    merged = merge(folder, folder.with_suffix(".merged.h5"))
    assert contents(merged) == contents(runs / "whole.h5")


def snapshot(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "log.txt"
    }


def test_without_a_whole_checkpoint_a_run_is_not_resumed_and_nothing_is_written(stopped: Path) -> None:
    damaged = [part(stopped, 30), part(stopped, 40)]
    for path in damaged:
        flip(path, 500, 501, 502, 503)
    before = snapshot(stopped)
    with pytest.raises(DamagedError) as caught:
        resume(stopped)
    for path in damaged:
        assert str(path) in str(caught.value)
    assert "petabatch run --force" in str(caught.value)
    assert snapshot(stopped) == before


def test_recorded_results_without_any_checkpoint_are_not_written_over(stopped: Path) -> None:
    for path in (stopped / "checkpoints").iterdir():
        path.unlink()
    before = snapshot(stopped)
    with pytest.raises(DamagedError, match=r"no checkpoint to resume from[^$]*--force"):
        resume(stopped)
    assert snapshot(stopped) == before


def test_a_run_killed_before_its_first_checkpoint_starts_again(runs: Path, stopped: Path) -> None:
    for folder in ("checkpoints", "parts"):
        for path in (stopped / folder).iterdir():
            path.unlink()
    (stopped / "run.h5").unlink()
    resume(stopped)
    assert_same_results(stopped, runs)


def test_a_run_killed_before_its_first_index_is_not_damaged(runs: Path, tmp_path: Path) -> None:
    """Segments are written, and named, before the index is."""
    loaded, killed = simulation.read(runs / "small.toml", ["output.flush=1 display"]), tmp_path / "killed"
    with (
        patch.object(hdf5, "new_hdf5", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        simulation.run(loaded, killed, mpi=False, quiet=True, threads=1)
    assert list((killed / "parts").iterdir())
    assert not (killed / "run.h5").exists()
    text, whole = integrity.verify(killed, repairing=False)
    assert whole, text
    so_far = contents(merge(killed, tmp_path / "so_far.h5"))
    assert so_far["layers/V1/A"]
    assert contents(runs / "whole.h5")["layers/V1/A"].startswith(so_far["layers/V1/A"])
    resume(killed)
    assert_same_results(killed, runs)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("place", "what"),
    [
        pytest.param(954, "its bytes have changed", id="byte 954"),
        pytest.param(1200, "its bytes have changed", id="byte 1200"),
        pytest.param(-1, "it has no seal at its end", id="the last byte"),
    ],
)
def test_a_damaged_head_is_passed_over_with_a_warning_and_never_opened(
    runs: Path, stopped: Path, caplog: pytest.LogCaptureFixture, place: int, what: str
) -> None:
    head = stopped / "checkpoints" / "step_000000040.h5"
    flip(head, place)
    with caplog.at_level(logging.WARNING, "petabatch"):
        resume(stopped)
    warnings = [record.message for record in caplog.records if "step_000000040" in record.message]
    assert warnings == [f"{head}: this file is damaged: {what}; the checkpoint of step 30 is used instead"]
    assert_same_results(stopped, runs)


def test_zeros_in_a_head_do_not_hang(runs: Path, stopped: Path) -> None:
    head = stopped / "checkpoints" / "step_000000040.h5"
    data = bytearray(head.read_bytes())
    data[896:1056] = bytes(160)
    head.write_bytes(data)
    resume(stopped)
    assert_same_results(stopped, runs)


@pytest.mark.parametrize("change", [flip, Path.unlink], ids=["flipped", "missing"])
def test_steps_of_a_damaged_segment_are_computed_again_from_an_earlier_checkpoint(
    runs: Path, stopped: Path, caplog: pytest.LogCaptureFixture, change: Callable[[Path], object]
) -> None:
    damaged = segment(stopped, 31)
    change(damaged)
    with caplog.at_level(logging.WARNING, "petabatch"):
        resume(stopped)
    assert any(damaged.name in record.message and "step 30" in record.message for record in caplog.records)
    assert_same_results(stopped, runs)


def test_a_damaged_segment_from_before_all_checkpoints_is_refused(stopped: Path) -> None:
    damaged = segment(stopped, 11)
    flip(damaged)
    before = snapshot(stopped)
    for use in (lambda: resume(stopped), lambda: merge(stopped, stopped.parent / "merged.h5")):
        with pytest.raises(DamagedError, match=damaged.name):
            use()
    assert snapshot(stopped) == before
    assert not (stopped.parent / "merged.h5").exists()


def test_edited_params_are_not_believed(stopped: Path) -> None:
    text = (stopped / "params.json").read_text()
    (stopped / "params.json").write_text(text.replace('"displays": 6', '"displays": 9'))
    with pytest.raises(DamagedError, match=r"params.json: this file is damaged"):
        resume(stopped)


@pytest.mark.parametrize("content", [b'title = "a\0b"', b"\xff\xfe"], ids=["NUL", "no UTF-8"])
def test_a_damaged_params_file_hinders_nothing(runs: Path, stopped: Path, content: bytes) -> None:
    with pb.open(stopped) as run:
        given = run.attributes["params_given"]
    (stopped / "params.toml").write_bytes(content)
    assert "nothing depends on this file" in integrity.verify(stopped, repairing=False)[0]
    resume(stopped)
    assert_same_results(stopped, runs)
    with pb.open(stopped) as run:
        assert run.attributes["params_given"] == given


def test_a_damaged_params_file_hinders_nothing_before_anything_is_recorded(runs: Path, stopped: Path) -> None:
    for path in (*stopped.glob("checkpoints/*"), *stopped.glob("parts/*"), stopped / "run.h5"):
        path.unlink()
    (stopped / "run.json").unlink()
    (stopped / "params.toml").write_bytes(b"a\0b\xff")
    resume(stopped)
    assert_same_results(stopped, runs)
    with pb.open(stopped) as run:
        assert run.attributes["params_given"] == r"a\x00b\xff"


def test_a_repair_that_cannot_be_written_exits_with_1(stopped: Path, petabatch: Command) -> None:
    (stopped / "run.h5").unlink()

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    found = petabatch("verify", stopped, "--repair", preexec_fn=full)
    assert (found.returncode, found.stderr) == (1, "")
    assert "not rebuilt        " in found.stdout
    assert petabatch("verify", stopped, "--repair").returncode == 0


def test_a_damaged_index_is_not_read(stopped: Path) -> None:
    flip(stopped / "run.h5")
    with pytest.raises(DamagedError, match=r"run.h5: this file is damaged[^$]*petabatch verify --repair"):
        pb.open(stopped)


def rebuild(folder: Path) -> str:
    text, whole = integrity.verify(folder, repairing=True)
    assert whole, text
    return text


@pytest.mark.parametrize("change", [flip, Path.unlink], ids=["flipped", "missing"])
def test_the_index_is_rebuilt_from_the_segments(
    runs: Path, stopped: Path, change: Callable[[Path], object]
) -> None:
    before = contents(stopped / "run.h5")
    change(stopped / "run.h5")
    text, whole = integrity.verify(stopped, repairing=False)
    assert not whole
    assert "run.h5" in text
    assert "petabatch verify --repair" in text
    assert "rebuilt            run.h5" in rebuild(stopped)
    assert contents(stopped / "run.h5") == before
    with pb.open(stopped) as run, pb.open(runs / "stopped") as other:
        same = ("status", "steps_reached", "started", "params", "libraries")
        assert [run.attributes[name] for name in same] == [other.attributes[name] for name in same]
    change(stopped / "run.h5")
    resume(stopped)
    assert_same_results(stopped, runs)


def test_verify_says_what_is_lost_and_how_to_get_it_back(stopped: Path) -> None:
    early, late = segment(stopped, 11), segment(stopped, 31)
    for path in (early, late, part(stopped, 30), stopped / "params.json", stopped / "params.toml"):
        flip(path)
    text, whole = integrity.verify(stopped, repairing=False)
    assert not whole
    told = itertools.pairwise(text.splitlines())
    meaning = {
        Path(line.split()[1].rstrip(":")).name: said.strip()
        for line, said in told
        if line.startswith("damaged")
    }
    lost = "lost without a copy of the file; `petabatch verify --repair` leaves them out of the run"
    assert meaning == {
        early.name: f"steps 11 to 20 of slices 0 to 2: {lost}",
        late.name: f"steps 31 to 40 of slices 0 to 2: {lost}",
        part(stopped, 30).name: "the checkpoint of step 30 is lost; the recorded results are not affected",
        "params.json": "the run cannot be resumed; restore the file from a copy",
        "params.toml": "nothing depends on this file",
    }
    flip(part(stopped, 30))
    assert "computes them again from step 30" in integrity.verify(stopped, repairing=False)[0]


def test_info_marks_damaged_checkpoints_and_names_damaged_files(stopped: Path) -> None:
    flip(part(stopped, 40), 500, 501, 502, 503)
    flip(stopped / "params.json")
    text = " ".join(information.describe(stopped).split())
    assert "checkpoints at steps 30, 40 (damaged)" in text
    assert "damaged params.json: this file is damaged" in text


def test_files_beyond_the_limit_are_compared_by_size(stopped: Path) -> None:
    flip(part(stopped, 40))
    assert all(state.state == "unread" for state in file_states(RunDirectory.open(stopped), limit=0))
    part(stopped, 30).write_bytes(b"short")
    found = file_states(RunDirectory.open(stopped), limit=0)
    assert [state.checkpoint for state in found if state.state == "damaged"] == [30]


def test_a_done_run_lives_without_its_checkpoints(runs: Path, stopped: Path) -> None:
    folder = shutil.copytree(runs / "whole", stopped.parent / "whole")
    with pytest.raises(RunDirectoryError, match="a run that is stopped"):
        prune(stopped)
    size = sum(path.stat().st_size for path in (folder / "checkpoints").iterdir())
    assert prune(folder) == size
    assert not any((folder / "checkpoints").iterdir())
    assert "checkpoints none" in " ".join(information.describe(folder).split())
    assert integrity.verify(folder, repairing=False)[1]
    assert_same_results(folder, runs)
    with pytest.raises(RunDirectoryError, match="already done"):
        resume(folder)


def test_the_verbs_exit_with_1_where_something_is_damaged(stopped: Path, petabatch: Command) -> None:
    assert petabatch("verify", stopped).returncode == 0
    flip(stopped / "run.h5")
    found = petabatch("verify", stopped)
    assert (found.returncode, found.stderr) == (1, "")
    assert "1 damaged" in found.stdout
    assert petabatch("verify", stopped, "--repair").returncode == 0
    assert petabatch("prune", stopped).returncode == 1


def test_a_done_run_is_not_resumed_and_its_files_are_all_sealed(runs: Path) -> None:
    folder = runs / "whole"
    with pytest.raises(RunDirectoryError, match="already done"):
        resume(folder)
    RunDirectory.open(folder).verify()
    for name in snapshot(folder).keys() - {"params.toml"}:
        verify(folder, name)


def test_unfinished_files_of_a_killed_run_that_is_done_are_removed_when_it_is_resumed(
    runs: Path, tmp_path: Path
) -> None:
    done = shutil.copytree(runs / "whole", tmp_path / "done")
    before = snapshot(done)
    for name in (".run.json.tmp", "parts/.steps_0-1.h5.tmp", "checkpoints/.step_000000060.h5.tmp"):
        (done / name).touch()
    with pytest.raises(RunDirectoryError, match="already done"):
        resume(done)
    assert snapshot(done) == before


def test_readers_see_checksums_of_damaged_values_and_steps(stopped: Path) -> None:
    for name, place in (
        ("layers/V1/A", "values"),
        ("probes/energy/total", "values"),
        ("probes/energy", "step"),
    ):
        damaged = segment(stopped, 11)
        whole = damaged.read_bytes()
        with h5py.File(damaged) as file:
            array = file[name][place] if place in file[name] else file[f"{name}/total/{place}"]
            at = array.id.get_chunk_info(0).byte_offset
        flip(damaged, at + 2)
        with pb.open(stopped) as run:
            series = run["layers/V1/A" if "layers" in name else "probes/energy/total"]
            with pytest.raises(DamagedError, match=r"is damaged[^$]*petabatch verify"):
                series.steps if place == "step" else series[...]
        damaged.write_bytes(whole)


def zero_chunk(path: Path, name: str) -> None:
    """Set the first chunk of an array to zero, with its checksum."""
    with h5py.File(path) as file:
        place = file[name].id.get_chunk_info(0)
    data = bytearray(path.read_bytes())
    data[place.byte_offset : place.byte_offset + place.size] = bytes(place.size)
    path.write_bytes(data)


def test_a_segment_with_a_name_that_is_not_of_its_steps_is_damaged(stopped: Path) -> None:
    """A seal covers the bytes of a file and not its name."""
    path = segment(stopped, 11)
    renamed = path.rename(path.with_name(path.name.replace("0020", "0025")))
    for repairing in (False, True):
        text, whole = integrity.verify(stopped, repairing)
        assert whole == repairing
        assert ("its last_step is 20" in text) != repairing
    assert not renamed.exists()


def test_a_chunk_that_became_zero_with_its_checksum_is_not_read(stopped: Path) -> None:
    for name in ("probes/energy/total/values", "probes/energy/total/step", "inputs/image/item/values"):
        damaged = segment(stopped, 11)
        whole = damaged.read_bytes()
        zero_chunk(damaged, name)
        with pb.open(stopped) as run:
            series = run[name.rpartition("/")[0]]
            with pytest.raises(DamagedError, match="is damaged"):
                series.steps if name.endswith("step") else series[...]
        damaged.write_bytes(whole)


def test_a_segment_of_another_run_is_not_read(runs: Path, stopped: Path) -> None:
    path = segment(stopped, 11)
    shutil.copy(runs / "other" / "parts" / path.name, path)
    with pb.open(stopped) as run, pytest.raises(DamagedError, match=f"{path.name}.*belongs to another run"):
        run.probe("energy")["total"][...]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["run.h5", "run.json", "parts", "checkpoints/step_000000040.h5"])
def test_a_file_of_another_run_is_damaged(runs: Path, stopped: Path, name: str) -> None:
    path = segment(stopped, 31) if name == "parts" else stopped / name
    name = str(path.relative_to(stopped))
    shutil.copy(runs / "other" / name, path)
    text, whole = integrity.verify(stopped, repairing=False)
    assert not whole
    assert f"damaged            {path}: this file is damaged: it belongs to another run" in text
    if name == "run.h5":
        with pytest.raises(DamagedError, match="belongs to another run"):
            pb.open(stopped)
    if name == "run.json":
        for use in (lambda: resume(stopped), lambda: merge(stopped, stopped.with_suffix(".h5"))):
            with pytest.raises(DamagedError, match="belongs to another run"):
                use()
    else:
        resume(stopped)
        assert_same_results(stopped, runs)


@pytest.mark.parametrize("name", ["run.json", "inputs.json", "params.json"])
def test_a_file_that_is_lost_is_missed(stopped: Path, name: str) -> None:
    (stopped / name).unlink()
    text, whole = integrity.verify(stopped, repairing=False)
    assert not whole
    assert f"damaged            {stopped / name}: this file is missing" in text
    before = snapshot(stopped)
    with pytest.raises(DamagedError, match=name):
        resume(stopped)
    assert snapshot(stopped) == before
    if name == "run.json":
        with pytest.raises(DamagedError, match=r"run.json: this file is missing"):
            merge(stopped, stopped.with_suffix(".h5"))


def test_the_newest_segment_is_missed_with_any_other_file(stopped: Path) -> None:
    newest = segment(stopped, 31)
    kept = newest.read_bytes()
    newest.unlink()
    for other in sorted(snapshot(stopped).keys() - {"params.toml"}):  # without which it is no run
        content = (stopped / other).read_bytes()
        (stopped / other).unlink()
        text, whole = integrity.verify(stopped, repairing=False)
        assert not whole
        # Without its description, it is not known who had them.
        named = newest.name in text or f"{stopped / 'parts'}: no segment has steps" in text
        assert named == (other != "run.json")
        (stopped / other).write_bytes(content)
    newest.write_bytes(kept)
    assert integrity.verify(stopped, repairing=False)[1]


@pytest.mark.parametrize(
    "names",
    [("run.json",), ("run.json", "run.h5"), ("run.json", "segment"), ("run.json", "run.h5", "segment")],
)
def test_of_a_run_of_two_segments_as_much_is_missed(small: Path, names: tuple[str, ...]) -> None:
    """With one segment left and no index, it is one killed in its first flush, but for checkpoints."""
    folder = alone(small, "out", "run.displays=2")
    *_, newest = sorted((folder / "parts").iterdir())
    for name in names:
        (newest if name == "segment" else folder / name).unlink()
    text, whole = integrity.verify(folder, repairing=False)
    assert not whole
    assert f"{folder / 'run.json'}: this file is missing" in text


def test_flipped_bits_in_the_values_of_a_merged_file_are_an_error(stopped: Path) -> None:
    merged = merge(stopped, stopped.with_suffix(".merged.h5"))
    whole = merged.read_bytes()
    for name in ("layers/V1/A", "probes/energy/total", "connections/dictionary/weights"):
        with h5py.File(merged) as file:
            at = file[name].id.get_chunk_info(0).byte_offset
        flip(merged, at + 2)
        with pb.open(merged) as run, pytest.raises(DamagedError):
            run[name][...]
        merged.write_bytes(whole)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kind", "how"),
    [*((kind, "flip") for kind in KINDS), ("segment", "swap"), ("segment", "zero"), ("index", "truncate"),
     (PAIR, "flip")],
)  # fmt: skip
def test_a_file_damaged_at_random_gives_the_same_values_or_is_refused(
    runs: Path, kind: str, how: str
) -> None:
    """At length: tests/support/fuzz.py."""
    uses = (
        "verify",
        "compaction",
        "reader",
        "info",
        "plot",
        *(["resume"] if kind in ("head", "segment") else ["repair"] if kind == PAIR else []),
    )
    assert not [outcome for outcome in campaign(runs, kind, how, uses, seed=7) if outcome.wrong]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(12))
def test_two_things_damaged_at_once_give_the_same_values_or_are_refused(runs: Path, seed: int) -> None:
    """At length: tests/support/fuzz.py --pairs."""
    use = ("resume", "repair", "merge", "reader")[seed % 4]
    assert not [outcome for outcome in damage_pairs.campaign(runs, ("verify", use), seed) if outcome.wrong]
