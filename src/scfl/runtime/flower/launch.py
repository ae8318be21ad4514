"""Starting a training through Flower's own command line, and hearing how it really ended.

``flwr run`` takes a folder with a pyproject.toml; it submits and ends with 0 whatever happens
afterwards. So the folder is written from a configuration, the run is followed with ``flwr list``,
and ``network.json`` in the run's folder, where this machine can see it, has the last word.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from scfl.errors import ConfigError, Problem, RunError
from scfl.runtime.network.config import NetworkConfig, check_network

_PROJECT = """\
# An app for Flower: `flwr run` this folder. The tables at the end are scfl's configuration.

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "scfl-network"
version = "{version}"
description = "Coded federated learning of linear models."
license = "Apache-2.0"
dependencies = ["scfl[flower]"]

[tool.flwr.app]
publisher = "scfl"

[tool.flwr.app.components]
serverapp = "scfl.app:server"
clientapp = "scfl.app:client"

"""
_TIMEOUT_S = 120


def write_app(folder: Path, tables: Mapping[str, Any]) -> NetworkConfig:
    """Write the folder that ``flwr run`` takes; the configuration is checked first."""
    config = check_network(tables)
    text = _PROJECT.format(version=version("scfl")) + "".join(
        _tables(tables, "tool.flwr.app.config")
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return config


def _tables(table: Mapping[str, Any], path: str) -> list[str]:
    values = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    for key, value in values.items():
        if not isinstance(value, (str, int, float, bool)):
            where = f"{path}.{key}".removeprefix("tool.flwr.app.config.")
            raise ConfigError(
                [Problem(where, f"{value!r} is a list, which Flower does not carry; leave it out")]
            )
    lines = [f"[{path}]\n", *(f"{key} = {json.dumps(value)}\n" for key, value in values.items())]
    own = [*lines, "\n"] if values else []
    nested = (_tables(t, f"{path}.{key}") for key, t in table.items() if isinstance(t, Mapping))
    return [*own, *(line for lines in nested for line in lines)]


def submit_run(tables: Mapping[str, Any], superlink: str) -> int:
    """Hand a training to a SuperLink; the number of its run."""
    with tempfile.TemporaryDirectory(prefix="scfl-app-") as name:
        write_app(Path(name), tables)
        told = _flwr("run", name, superlink, "--format", "json")
    if not told.get("success") or "run-id" not in told:
        raise RunError(f"Flower did not take the run: {told.get('error-message', told)}")
    return int(told["run-id"])


def read_status(run: int, superlink: str) -> tuple[str, str]:
    """Flower's word on a run: its status (such as ``finished:completed``) and its details."""
    told = _flwr("list", superlink, "--run-id", str(run), "--format", "json")
    for entry in told.get("runs", []):
        if int(entry["run-id"]) == run:
            return str(entry["status"]), str(entry.get("details", ""))
    raise RunError(f"the SuperLink {superlink!r} knows no run {run}")


def _flwr(*words: str) -> dict[str, Any]:
    """Run Flower's command line and read the JSON that it prints, whatever else it prints."""
    beside = Path(sys.executable).with_name("flwr")
    command = str(beside) if beside.exists() else shutil.which("flwr")
    if command is None:
        raise RunError("Flower is not installed here; pip install 'scfl[flower]'")
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    try:
        done = subprocess.run(
            [command, *words],
            env={**quiet, **os.environ},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"flwr {words[0]} did not answer within {_TIMEOUT_S} s") from None
    start = done.stdout.find("{")
    try:
        told: dict[str, Any] = json.JSONDecoder().raw_decode(done.stdout[max(start, 0) :])[0]
    except ValueError:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise RunError(f"flwr {words[0]} failed: {said[-1] if said else done.returncode}") from None
    return told
