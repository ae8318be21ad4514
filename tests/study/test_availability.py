"""The table [availability]: what it means, what identifies a run, and what is said of mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

import scfl
from scfl.core.availability import Always, Availability, Independent
from scfl.errors import ConfigError
from scfl.study.availability import describe_availability
from scfl.study.config import StudyConfig, check_tables
from scfl.study.jobs import list_jobs
from scfl.study.run import check_study, run_study

SMALL: dict[str, Any] = {
    "seeds": 1,
    "problem": {"dataset": "regression", "rows": 60, "columns": 3},
    "partition": {"clients": 4},
    "clock": {"rounds": 5},
    "methods": {"fl-ipw": {}},
}


def study(table: dict[str, Any] | None = None, folder: Path = Path()) -> StudyConfig:
    given = SMALL if table is None else {**SMALL, "availability": table}
    return check_tables(given, name="x", folder=folder)


@pytest.mark.parametrize(
    ("table", "law"),
    [
        (None, Always()),
        ({"kind": "always"}, Always()),
        ({"kind": "independent", "probability": 0.5}, Independent(0.5)),
        ({"kind": "outages", "mean-up-s": 9.0}, scfl.Outages(mean_up_s=9.0)),
        ({"kind": "diurnal", "up-share": 0.3, "spread": 0}, scfl.Diurnal(up_share=0.3, spread=0)),
        ({"kind": "departures", "at-s": [1, 2]}, scfl.Departures(at_s=(1, 2))),
        ({"kind": "late-joiners", "clients": [3]}, scfl.LateJoiners(clients=(3,))),
        ({"kind": "trace", "intervals": [[0, 0, 5]]}, scfl.Trace(((0, 0.0, 5.0),))),
    ],
)
def test_a_table_becomes_a_law_and_back(table: dict[str, Any] | None, law: Availability) -> None:
    read = study(table).availability
    assert read == law
    described = {key.replace("_", "-"): value for key, value in describe_availability(law).items()}
    assert study(described).availability == law


def test_a_trace_lies_beside_the_configuration_and_counts_by_content(tmp_path: Path) -> None:
    keys = []
    for until in (5.0, 6.0):
        (tmp_path / "up.csv").write_text(f"client,from_s,until_s\n1,0,{until}\n1,7,9\n")
        read = study({"kind": "trace", "file": "up.csv"}, tmp_path)
        assert read.availability == scfl.Trace(((1, 0.0, until), (1, 7.0, 9.0)))
        keys.append(list_jobs(read)[0].key)
    assert len({*keys, list_jobs(study())[0].key}) == 3
    assert list_jobs(study())[0].key == list_jobs(study({"kind": "always"}))[0].key


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"probability": 0.5}, "availability.kind: is missing; choose from always, independent"),
        ({"kind": "outage"}, "availability.kind: 'outage' is not known; did you mean 'outages'?"),
        ({"kind": "outages", "up": 3}, "availability.up: there is no such key"),
        ({"kind": "independent", "probability": 2}, "availability.probability: 2 is not allowed"),
        ({"kind": "trace", "file": "no.csv"}, "availability.file: no.csv cannot be read"),
        ({"kind": "trace"}, "a trace takes either `file` or `intervals`"),
        ({"kind": "trace", "intervals": [[1, 2]]}, "is not a client's number, a time"),
    ],
)
def test_mistakes_get_a_sentence(table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        study(table)
    assert sentence in str(error.value)


def test_a_file_without_the_columns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "up.csv").write_text("client,begin\n1,0\n")
    with pytest.raises(ConfigError, match="needs rows with the columns client, from_s, until_s"):
        study({"kind": "trace", "file": "up.csv"}, tmp_path)


def test_a_client_that_does_not_exist_is_refused_before_anything_runs() -> None:
    with pytest.raises(ConfigError, match="client 9 is named, but the fleet has 4 clients"):
        check_study(study({"kind": "departures", "clients": [9]}))


def test_absences_reach_the_ledger(tmp_path: Path) -> None:
    ready = check_study(study({"kind": "departures", "clients": [0], "at-s": 0.0}))
    (summary,) = run_study(ready, tmp_path / "out")
    table = parquet.read_table(tmp_path / "out" / summary["folder"] / "ledger.parquet")
    assert table.column("status").to_pylist()[::4] == ["absent"] * 5
