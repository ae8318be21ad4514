"""What a folder holds comes back typed, and what is wrong with it is said in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scfl.errors import OutputError
from scfl.study.records import (
    ABSENT,
    LATE,
    Ledger,
    load_ledger,
    load_study,
    scan_ledger,
)
from tests.fabricated_study import THREE, fabricate_study


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return fabricate_study(tmp_path / "out", rounds=24, seeds=(4, 2), diverged=[("fl-pma-0.2", 2)])


def change_json(path: Path, change: Callable[[Any], None]) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def test_runs_come_in_the_order_configured_with_their_numbers(folder: Path) -> None:
    study = load_study(folder)
    written = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert study.labels == ("scfl", "fedavg", "fl-pma-0.2")
    assert [run.seed for run in study.of("scfl")] == [4, 2]
    for run, entry in zip(study.runs, written, strict=True):
        assert (run.label, run.rounds, run.setup_time_s, run.loss, run.coded_rows) == (
            entry["label"],
            entry["rounds"],
            entry["setup_time_s"],
            entry["loss"],
            entry["coded_rows"],
        )
        assert run.trace.round[0] == 0
        assert run.trace.round[-1] == run.rounds
        assert run.trace.training_time_s[-1] == pytest.approx(run.training_time_s)
    assert study.methods["fl-pma-0.2"] == "fl-pma"


def test_a_diverged_run_has_no_loss_and_a_reason(folder: Path) -> None:
    (run,) = [run for run in load_study(folder).runs if run.diverged]
    assert run.loss is None
    assert run.reason is not None
    assert np.isinf(run.trace.loss[-1])


def test_the_manifest_comes_back(folder: Path) -> None:
    manifest = load_study(folder).manifest
    assert manifest.seeds == (4, 2)
    assert manifest.config["partition"]["kind"] == "label-sorted"
    assert manifest.problem.clients == len(manifest.problem.client_rows) == 20
    assert manifest.problem.client_classes is not None
    assert sum(map(sum, manifest.problem.client_classes)) == manifest.problem.rows


def test_what_was_released_comes_back(folder: Path) -> None:
    scfl, fedavg = (load_study(folder).of(name)[0] for name in ("scfl", "fedavg"))
    assert scfl.statements == ("All clients sent 24 gradients: not covered by any guarantee.",)
    assert (scfl.privacy["mi_bits"], scfl.privacy["noise_sigma"]) == (2.0, 0.0)
    assert fedavg.privacy["noise_sigma"] is None


def test_a_ledger_is_the_same_in_pieces(folder: Path) -> None:
    run = load_study(folder).of("scfl")[0]
    whole = load_ledger(run)
    pieces = list(scan_ledger(run, batch_rows=37))
    assert len(pieces) > 1
    for name in Ledger.__dataclass_fields__:
        joined = np.concatenate([getattr(piece, name) for piece in pieces])
        np.testing.assert_array_equal(joined, getattr(whole, name))
    assert whole.round.size == run.rounds * 20
    gone = (whole.client == 3) & (whole.round > run.rounds // 2)
    assert set(whole.status[gone].tolist()) == {ABSENT}
    assert np.isnan(whole.delay_s[gone]).all()
    assert (whole.weight[whole.status == LATE] == 0).all()


def test_an_empty_ledger_is_empty(folder: Path) -> None:
    run = load_study(folder).of("scfl")[0]
    path = run.folder / "ledger.parquet"
    pq.write_table(pq.read_table(path).slice(0, 0), path)
    assert load_ledger(run).round.size == 0


def test_an_interrupted_folder_gives_what_is_finished(folder: Path) -> None:
    (folder / "results.json").unlink()
    first = load_study(folder).runs[0].folder
    (first / "result.json").unlink()
    aside = folder / "runs" / ".unfinished-1"
    aside.mkdir()
    (aside / "result.json").write_text("{", encoding="utf-8")
    study = load_study(folder)
    assert len(study.runs) == 5
    assert first not in [run.folder for run in study.runs]


def test_a_folder_without_any_run_is_a_study_without_runs(tmp_path: Path) -> None:
    out = fabricate_study(tmp_path, entries=(), status="running")
    (out / "results.json").unlink()
    assert load_study(out).runs == ()


def test_a_folder_that_is_no_study_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"no manifest\.json.*scfl run"):
        load_study(tmp_path)


def test_a_newer_format_is_refused(folder: Path) -> None:
    change_json(folder / "manifest.json", lambda content: content.update(format=2))
    with pytest.raises(OutputError, match="format 2; this scfl reads format 1"):
        load_study(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda runs: runs[1].pop("rounds"), "entry 1: 'rounds' is missing"),
        (lambda runs: runs[1].update(rounds="many"), "rounds is 'many'; it must be a whole number"),
        (lambda runs: runs[1].update(rounds=True), "rounds is True; it must be a whole number"),
        (lambda runs: runs[1].update(diverged=1), "diverged is 1; it must be true or false"),
        (lambda runs: runs.__setitem__(1, 7), "entry 1: 7 stands where an object belongs"),
    ],
)
def test_a_damaged_entry_is_named(
    folder: Path, change: Callable[[Any], None], message: str
) -> None:
    change_json(folder / "results.json", change)
    with pytest.raises(OutputError, match=message):
        load_study(folder)


def test_results_that_are_no_list_are_refused(folder: Path) -> None:
    (folder / "results.json").write_text("{}", encoding="utf-8")
    with pytest.raises(OutputError, match="does not hold a list of runs"):
        load_study(folder)


def test_a_file_cut_short_is_named(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_text(path.read_text(encoding="utf-8")[:50], encoding="utf-8")
    with pytest.raises(OutputError, match=r"manifest\.json cannot be read"):
        load_study(folder)


@pytest.mark.parametrize("damage", ["missing", "broken", "column"])
def test_a_bad_trace_is_named(folder: Path, damage: str) -> None:
    path = load_study(folder).runs[0].folder / "trace.parquet"
    if damage == "missing":
        path.unlink()
    elif damage == "broken":
        path.write_bytes(b"PAR1")
    else:
        pq.write_table(pq.read_table(path).drop_columns(["loss"]), path)
    expected = {"missing": "is missing", "broken": "cannot be read", "column": "no column 'loss'"}
    with pytest.raises(
        OutputError, match=rf"trace\.parquet {expected[damage].replace('no', '.*no')}"
    ):
        load_study(folder)


def test_an_unknown_status_is_refused(folder: Path) -> None:
    run = load_study(folder).runs[0]
    path = run.folder / "ledger.parquet"
    table = pq.read_table(path)
    words = pa.array(["asleep"] * table.num_rows)
    place = table.column_names.index("status")
    pq.write_table(table.set_column(place, "status", words), path)
    with pytest.raises(OutputError, match="status 'asleep'; known are arrived"):
        load_ledger(run)


def test_the_fixture_obeys_the_contract(folder: Path) -> None:
    """The reader is tested against this folder, so its arithmetic has to hold."""
    for run in load_study(folder).runs:
        ledger = load_ledger(run)
        entry = next(entry for entry in THREE if entry.label == run.label)
        assert ledger.bytes_up.sum() + run.setup_bytes_up == run.bytes_up
        assert ledger.closed_s.max() == pytest.approx(run.training_time_s)
        assert (run.setup_time_s > 0) == (entry.coded_rows > 0)
