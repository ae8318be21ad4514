"""Codes and noises are the clients' secrets: nothing that a study leaves behind holds any of them.

The seed of a run is the experimenter's and stands in every record, as it must for a simulation that
can be repeated; who knows it can draw the simulated clients' secrets. Real clients draw theirs
elsewhere and name no seed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from scfl.core import coding
from scfl.report.html import write_report
from scfl.runtime.network.worker import Worker
from scfl.study.config import check_tables
from scfl.study.run import check_study, run_study

STUDY: dict[str, Any] = {
    "seeds": [7],
    "problem": {"dataset": "regression", "rows": 120, "columns": 4, "dtype": "float64"},
    "partition": {"kind": "iid", "clients": 3},
    "clock": {"rounds": 4},
    "privacy": {"epsilon": 2.0, "delta": 1e-5, "row-norm": 3.0},
    "defaults": {"batches": {"subsets": 2}},
    "methods": {
        "scfl": {},
        "stacked": {"method": "scfl", "layout": "stacked"},
        "codedfedl": {},
        "dp-cfl": {},
    },
}


def numbers_in(value: Any) -> Iterator[float]:
    """Every number of a JSON document."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from numbers_in(item)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield float(value)


def test_no_record_holds_a_number_of_a_code_or_a_noise(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    secrets: list[np.ndarray] = []
    honest = coding._normal

    def listen(generator: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Any:
        drawn = honest(generator, shape, dtype)
        secrets.append(np.array(drawn, copy=True).ravel())
        return drawn

    monkeypatch.setattr(coding, "_normal", listen)
    caplog.set_level(logging.DEBUG)
    run_study(check_study(check_tables(STUDY, name="secrets")), tmp_path)
    write_report(tmp_path)
    drawn = np.unique(np.concatenate(secrets))
    assert drawn.size > 1000
    said = capfd.readouterr()
    texts = [caplog.text, said.out, said.err]
    seen: list[float] = []
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json", ".html", ".parquet"}
    for path in files:
        if path.suffix == ".parquet":
            for column in pq.read_table(path).columns:
                if column.type in ("float", "double"):
                    seen += column.to_pylist()
        else:
            texts.append(path.read_text(encoding="utf-8"))
            if path.suffix == ".json":
                seen += numbers_in(json.loads(texts[-1]))
    recorded = np.array([number for number in seen if number], dtype=np.float64)
    assert not np.isin(recorded, np.concatenate([drawn, drawn.astype(np.float32)])).any()
    everything = "\n".join(texts)
    for number in drawn[:: max(1, drawn.size // 500)]:
        assert f"{number:.9g}" not in everything
        assert repr(float(number)) not in everything


def test_a_client_that_is_printed_keeps_its_seed() -> None:
    secret = 271_828_182_845
    worker = Worker(holdings=None, secret=secret)  # type: ignore[arg-type]
    assert str(secret) not in repr(worker)


def test_the_watch_would_notice() -> None:
    assert list(numbers_in({"a": [1, {"b": 2.5}], "c": True, "d": None})) == [1.0, 2.5]
