"""Studies on disk: the same results however they are computed, interrupted or resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import scfl
from scfl.errors import ConfigError, OutputError, RunError
from scfl.study import run as run_module
from scfl.study.config import StudyConfig, check_tables
from scfl.study.jobs import list_jobs
from scfl.study.run import check_file, check_study, run_study
from scfl.study.source import build_problem


def study(**changes: Any) -> StudyConfig:
    tables: dict[str, Any] = {
        "name": "small",
        "seeds": 2,
        "problem": {"dataset": "regression", "rows": 60, "columns": 3},
        "partition": {"clients": 4},
        "clock": {"rounds": 6, "evaluate-every": 2},
        "methods": {"scfl": {"coded-rows": 10}, "fedavg": {}},
    }
    return check_tables({**tables, **changes}, name="small")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }


def test_one_process_or_two_give_the_same_bytes(tmp_path: Path) -> None:
    ready = check_study(study())
    run_study(ready, tmp_path / "one", jobs=1)
    run_study(ready, tmp_path / "two", jobs=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_results_are_what_the_simulator_says(tmp_path: Path) -> None:
    ready = check_study(study())
    summaries = run_study(ready, tmp_path)
    job = list_jobs(study())[1]
    problem = build_problem(job.source)
    machines = scfl.wireless_edge(4, random_state=1)
    result = scfl.simulate(
        problem, machines, scfl.SCFL(coded_rows=10), rounds=6, random_state=1, evaluate_every=2
    )
    summary = summaries[1]
    assert (summary["label"], summary["seed"]) == ("scfl", 1)
    assert summary["loss"] == result.loss
    assert summary["virtual_time_s"] == result.virtual_time_s
    assert summary["accuracy"] is None
    assert summary["bytes_up"] == pytest.approx(
        result.ledger.bytes_up.sum() + result.setup.upload_bytes.sum()
    )
    assert json.loads((tmp_path / "results.json").read_text()) == summaries
    trace = pq.read_table(tmp_path / summary["folder"] / "trace.parquet").to_pydict()
    np.testing.assert_array_equal(trace["loss"], result.trace.loss)
    ledger = pq.read_table(tmp_path / summary["folder"] / "ledger.parquet").to_pydict()
    assert len(ledger["round"]) == 6 * 4
    assert sum(ledger["bytes_up"]) == pytest.approx(result.ledger.bytes_up.sum())
    arrived = sum(status == "arrived" for status in ledger["status"])
    assert arrived == (result.ledger.status == 0).sum()


def test_what_is_finished_is_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = check_study(study())
    run_study(ready, tmp_path)
    before = contents(tmp_path)
    monkeypatch.setattr(run_module, "execute", lambda *_: pytest.fail("ran again"))
    run_study(ready, tmp_path)
    assert contents(tmp_path) == before


def test_half_written_runs_are_not_taken_for_whole_ones(tmp_path: Path) -> None:
    ready = check_study(study())
    run_study(ready, tmp_path)
    before = contents(tmp_path)
    victim = tmp_path / list_jobs(study())[0].folder
    (victim / "result.json").unlink()
    litter = tmp_path / "runs" / ".unfinished-xyz"
    litter.mkdir()
    (litter / "trace.parquet").write_bytes(b"half")
    run_study(ready, tmp_path)
    assert contents(tmp_path) == before


def test_a_run_that_breaks_leaves_the_others_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = check_study(study())
    whole = run_module.execute

    def break_one(job: Any, problem: Any) -> Any:
        if job.label == "scfl" and job.seed == 1:
            raise MemoryError("no room")
        return whole(job, problem)

    monkeypatch.setattr(run_module, "execute", break_one)
    with pytest.raises(RunError, match=r"1 of 4 runs failed.*scfl, seed 1: MemoryError: no room"):
        run_study(ready, tmp_path)
    assert json.loads((tmp_path / "manifest.json").read_text())["status"] == "incomplete"
    assert len(json.loads((tmp_path / "results.json").read_text())) == 3
    monkeypatch.undo()
    assert len(run_study(ready, tmp_path)) == 4
    assert json.loads((tmp_path / "manifest.json").read_text())["status"] == "complete"


def test_a_folder_of_another_study_is_refused(tmp_path: Path) -> None:
    run_study(check_study(study()), tmp_path)
    other = check_study(study(clock={"rounds": 7}))
    with pytest.raises(OutputError, match="results of another configuration"):
        run_study(other, tmp_path)
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(OutputError, match="not empty and holds no study"):
        run_study(other, tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="choose another --out"):
        run_study(other, tmp_path / "file")


def test_a_key_depends_on_what_matters_and_on_nothing_else() -> None:
    keys = {job.key for job in list_jobs(study())}
    assert len(keys) == 4
    renamed = study(methods={"mine": {"method": "scfl", "coded-rows": 10}, "fedavg": {}})
    assert {job.key for job in list_jobs(renamed)} == keys
    for change in (
        {"clock": {"rounds": 7, "evaluate-every": 2}},
        {"fleet": {"erasure": 0.2}},
        {"partition": {"clients": 5}},
        {"problem": {"dataset": "regression", "rows": 61, "columns": 3}},
        {"methods": {"scfl": {"coded-rows": 11}, "fedavg": {"learning-rate": 0.9}}},
    ):
        assert not {job.key for job in list_jobs(study(**change))} & keys, change


def test_a_data_file_counts_by_its_content(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 2)), rng.standard_normal(30)

    def keys(name: str, rows: np.ndarray) -> set[str]:
        np.savez(tmp_path / name, X=rows, y=y)
        return {job.key for job in list_jobs(study(problem={"dataset": str(tmp_path / name)}))}

    assert keys("a.npz", X) == keys("b.npz", X)
    assert not keys("a.npz", X) & keys("c.npz", 2 * X)


def test_the_check_names_every_method_that_cannot_run() -> None:
    broken = study(
        methods={
            "scfl": {"deadline-s": 1e-6},
            "stacked": {"method": "scfl", "layout": "stacked", "coded-rows": 2},
            "fedavg": {},
        }
    )
    with pytest.raises(ConfigError) as error:
        check_study(broken)
    said = str(error.value)
    assert "methods.scfl.deadline_s" in said.replace("deadline-s", "deadline_s")
    assert "methods.stacked.coded" in said
    assert "fedavg" not in said


def test_the_check_names_bad_data(tmp_path: Path) -> None:
    X = np.ones((10, 2))
    X[3, 1] = np.nan
    np.savez(tmp_path / "bad.npz", X=X, y=np.arange(10.0))
    with pytest.raises(ConfigError, match=r"X, row 3, column 1: nan"):
        check_study(study(problem={"dataset": str(tmp_path / "bad.npz")}))
    with pytest.raises(ConfigError, match="cannot be read"):
        check_study(study(problem={"dataset": str(tmp_path / "none.npz")}))
    np.savez(tmp_path / "good.npz", X=np.ones((10, 2)), y=np.arange(10.0))
    with pytest.raises(ConfigError, match="or add an array 'clients'"):
        check_study(
            study(problem={"dataset": str(tmp_path / "good.npz")}, partition={"kind": "column"})
        )


def test_the_check_of_a_file_says_what_is_wrong_with_it_and_with_its_data(tmp_path: Path) -> None:
    X = np.ones((10, 2))
    X[3, 1] = np.inf
    np.savez(tmp_path / "bad.npz", X=X, y=np.arange(10.0))
    config = tmp_path / "study.toml"
    config.write_text(
        "[problem]\ndataset='bad.npz'\n[partition]\nclients=2\n[clock]\nrounds=5\n"
        "[fleet]\nerasure=2\n[methods.scfl]\nlearning-rate=-1\n"
    )
    with pytest.raises(ConfigError) as error:
        check_file(config)
    assert [problem.where for problem in error.value.problems] == [
        "fleet.erasure",
        "methods.scfl.learning-rate",
        "bad.npz: X, row 3, column 1",
    ]
    with pytest.raises(ConfigError, match=r"^methods: 3 is a value"):
        check_file(config, ["methods=3", "fleet.erasure=0.1", "problem.dataset=digits"])


def test_the_deadline_that_the_check_names_is_enough_for_every_seed() -> None:
    def short(deadline_s: float) -> StudyConfig:
        return study(seeds=6, methods={"scfl": {"deadline-s": deadline_s}})

    with pytest.raises(ConfigError, match="exclude-unreachable = true") as error:
        check_study(short(1e-6))
    (problem,) = error.value.problems
    assert problem.where == "methods.scfl.deadline-s"
    assert f"give at least {problem.enough:g} s" in problem.sentence
    check_study(short(problem.enough))
    with pytest.raises(ConfigError):
        check_study(short(0.99 * problem.enough))


@pytest.mark.parametrize("layout", ["summed", "stacked"])
def test_coded_data_that_no_memory_holds_is_refused(layout: str) -> None:
    methods = {"scfl": {"coded-rows": 10**13, "layout": layout}}
    with pytest.raises(ConfigError, match=r"scfl.coded-rows: 1\d+(,0{3})+ rows .* TB, and this"):
        check_study(study(methods=methods))


def test_a_horizon_without_a_single_round_is_refused() -> None:
    def within(horizon_s: float, setup: str) -> StudyConfig:
        return study(clock={"horizon-s": horizon_s, "setup": setup}, methods={"scfl": {}})

    with pytest.raises(ConfigError, match=r"clock.horizon-s: 1e-06 s is over .*setup = \"apart\""):
        check_study(within(1e-6, "counted"))
    with pytest.raises(ConfigError, match="give at least") as error:
        check_study(within(1e-6, "apart"))
    enough = float(str(error.value).rsplit(" ", 1)[1])
    check_study(within(enough, "apart"))
    with pytest.raises(ConfigError):
        check_study(within(0.999 * enough, "apart"))


@pytest.mark.parametrize("moment", [0.0, 0.3, 0.8])
def test_a_killed_study_goes_on_to_the_same_results(tmp_path: Path, moment: float) -> None:
    """Kill the process group without warning, at several moments, then start it again."""
    config = tmp_path / "study.toml"
    config.write_text(
        "seeds = 6\n[problem]\ndataset='regression'\nrows=400\ncolumns=20\n"
        "[partition]\nclients=5\n[clock]\nrounds=1500\n[methods.scfl]\n[methods.fedavg]\n"
    )
    command = [sys.executable, "-m", "scfl", "run", str(config), "--jobs", "2", "--out"]
    subprocess.run([*command, str(tmp_path / "whole")], check=True, capture_output=True)
    out = tmp_path / "killed"
    process = subprocess.Popen(
        [*command, str(out)],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    give_up = time.monotonic() + 60
    while not (out / "manifest.json").exists() and time.monotonic() < give_up:
        time.sleep(0.01)
    time.sleep(moment)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=30)
    subprocess.run([*command, str(out)], check=True, capture_output=True)
    whole, resumed = contents(tmp_path / "whole"), contents(out)
    whole.pop("report.html"), resumed.pop("report.html")
    assert whole == resumed


def test_a_search_that_goes_beyond_its_list_says_so_and_is_resumed(tmp_path: Path) -> None:
    search = {"learning-rates": [0.01, 0.02], "widen": 3, "refine": 1, "seeds": [0, 1]}
    ready, more, done = check_study(study(search=search)), [], []
    summaries = run_study(
        ready, tmp_path, on_done=lambda job, _: done.append(job.folder), on_more=more.append
    )
    by_label = {each["label"]: each["search"] for each in summaries}
    assert all(max(found["learning_rates"]) > 0.02 for found in by_label.values())
    assert len(done) == len(set(done)) == ready.runs + sum(more)
    before, again = contents(tmp_path), []
    run_study(ready, tmp_path, on_done=lambda job, _: again.append(job.folder))
    assert contents(tmp_path) == before
    assert again == done
    # Another rule is another study.
    with pytest.raises(OutputError):
        run_study(check_study(study(search={**search, "refine": 2})), tmp_path)
