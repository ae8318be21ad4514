"""`scfl network`: its exit code tells the truth, whatever Flower's own says.

A stand-in for Flower's command line takes the run and says how it ended; what the server would have
written is laid beside it.
"""

from __future__ import annotations

import json
import stat
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from scfl import cli
from scfl.errors import ScflError
from scfl.runtime.flower.launch import write_app
from scfl.runtime.network.config import check_network, nest

CONFIG = """
[network]
out = "{out}"
clients = 3
rounds = 10

[method]
name = "scfl"
learning-rate = 2.0
coded-rows = 30
deadline-s = 1.5
batches.subsets = 4

[features]
dimensions = 20
"""
TOLD: dict[str, Any] = {
    "status": "complete",
    "reason": "all 10 rounds are done",
    "phase": "done",
    "round": 10,
    "rounds": 10,
    "method": "scfl",
    "lane": "stream",
    "seconds": 3.0,
    "loss": 0.25,
    "accuracy": None,
    "measured_on": "coded data",
    "bytes_up": 1000.0,
    "bytes_down": 2000.0,
    "released": "30 coded rows with no noise",
    "clients": [
        {
            "name": "north",
            "rows": 7,
            "here": True,
            "stage": "ready",
            "reason": None,
            "refused": 0,
            "arrived": 9,
            "late": 1,
            "absent": 0,
            "probability": 0.9,
            "bytes_up": 1000.0,
            "bytes_down": 2000.0,
        }
    ],
    "events": [{"at": 1.0, "sentence": "north is here with 7 rows"}],
}


def run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    status: str = "finished:completed",
    told: dict[str, Any] | None = None,
    submitted: str = '{"success": true, "run-id": "7"}',
) -> tuple[int, str]:
    """Start a training with a Flower that answers so; the exit code and all that was said."""
    out, beside = tmp_path / "out", tmp_path / "bin"
    beside.mkdir()
    flwr = beside / "flwr"
    record = tmp_path / "record.json"
    if told is not None:
        record.write_text(json.dumps(told), encoding="utf-8")
    listed = json.dumps({"runs": [{"run-id": "7", "status": status, "details": "it fell over"}]})
    flwr.write_text(
        "#!/bin/sh\n"
        f"if [ $1 = run ]; then [ -f {record} ] && mkdir -p {out} && "
        f"cp {record} {out}/network.json; echo '{submitted}'; "
        f"else echo noise; echo '{listed}'; fi\n",
        encoding="utf-8",
    )
    flwr.chmod(flwr.stat().st_mode | stat.S_IXUSR)
    config = tmp_path / "network.toml"
    config.write_text(CONFIG.format(out=out), encoding="utf-8")
    monkeypatch.setattr("scfl.runtime.flower.launch.sys.executable", str(beside / "python"))
    monkeypatch.setattr("scfl.cli.network._RECORD_S", 0.0)
    monkeypatch.setattr(sys, "argv", ["scfl", "network", "run", str(config), "here"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out + said.err


def test_a_training_that_did_all_that_was_asked_ends_with_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = run(tmp_path, monkeypatch, capsys, told=TOLD)
    assert code == 0
    assert "all 10 rounds are done" in said
    assert "round 10 of 10, loss 0.25 on coded data" in said


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"status": "failed", "reason": "north: a.csv: row 3"}, "north: a.csv"),
        ({"status": "failed", "reason": "no longer finite"}, "no longer"),
        ({"round": 0}, "without a single round"),
        ({"status": "running", "round": 4}, "without a word after round 4"),
    ],
)
def test_what_went_wrong_ends_with_1_and_the_reason_though_flower_says_completed(
    changed: dict[str, Any],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, said = run(tmp_path, monkeypatch, capsys, told={**TOLD, **changed})
    assert code == 1
    assert sentence in said
    assert "Traceback" not in said


def test_without_a_record_flowers_status_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = run(tmp_path, monkeypatch, capsys, status="finished:failed")
    assert code == 1
    assert "ended as finished:failed: it fell over" in said


def test_a_run_that_flower_does_not_take_ends_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = '{"success": false, "error-message": "no such SuperLink"}'
    code, said = run(tmp_path, monkeypatch, capsys, submitted=refused)
    assert code == 1
    assert "no such SuperLink" in said


def test_the_app_carries_the_configuration(tmp_path: Path) -> None:
    """Flower flattens the tables, and the server's app makes the same configuration of them."""
    tables = tomllib.loads(CONFIG.format(out="out"))
    wanted = write_app(tmp_path, tables)
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text(encoding="utf-8"))
    carried = project["tool"]["flwr"]["app"]["config"]
    assert check_network(nest(flatten(carried))) == wanted


def flatten(table: dict[str, Any], path: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        nested = isinstance(value, dict)
        flat |= flatten(value, f"{path}{key}.") if nested else {f"{path}{key}": value}
    return flat


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"network": {"lane": "post"}}, "network.lane: 'post' is not known"),
        ({"network": {"clients": 0}}, "network.clients: 0 is not allowed"),
        ({"network": {"listen": "anywhere"}}, "network.listen: 'anywhere' is no address"),
        ({"network": {"lest": 3}}, "network.lest: there is no such key; did you mean 'least'?"),
        ({"method": {"name": "scfk"}}, "did you mean 'scfl'?"),
        ({"method": {"deadline-s": -1}}, "method.deadline-s: -1 is not allowed"),
        ({"fleet": {}}, "fleet: there is no such table"),
        ({"method": {"learning-rate": [1, 2]}}, "learning-rate: (1, 2) is not allowed"),
    ],
)
def test_a_mistake_is_a_sentence_with_its_key(
    change: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    tables = tomllib.loads(CONFIG.format(out="out"))
    for key, values in change.items():
        tables.setdefault(key, {}).update(values)
    with pytest.raises(ScflError) as raised:
        write_app(tmp_path / "app", tables)
    assert sentence in str(raised.value)
    assert not (tmp_path / "app").exists()
