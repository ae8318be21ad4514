"""Trainings on a federation: their configuration, their start and their end, as a user has them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from scfl.runtime.flower.launch import write_app
from tests.network.federation import NAME, Federation

CONFIG = """
[network]
out = "{out}"
clients = 5
rounds = 60
registered = true
test-data = "{test}"
enrol-s = 240.0
patience-s = 60.0
checkpoint-every = 5

[method]
name = "scfl"
learning-rate = 5.0
deadline-s = 5.0
coded-rows = 300
batches.subsets = 5

[features]
dimensions = 300
width = 1.5
"""


def configure(running: Federation, name: str, **network: Any) -> tuple[Path, Path]:
    """A configuration file, and the folder that its training will write."""
    out = running.folder / name
    tables = tomllib.loads(CONFIG.format(out=out, test=running.folder / "test.npz"))
    tables["network"].update(network)
    write_app(running.folder / f"{name}-app", tables)  # writes TOML, and checks it
    project = (running.folder / f"{name}-app" / "pyproject.toml").read_text(encoding="utf-8")
    text = project[project.index("[tool.flwr.app.config") :]
    path = running.folder / f"{name}.toml"
    path.write_text(text.replace("tool.flwr.app.config.", ""), encoding="utf-8")
    return path, out


def start(running: Federation, path: Path, *changes: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "scfl", "network", "run", str(path), NAME]
    command += [word for change in changes for word in ("--set", change)]
    return subprocess.Popen(
        command, env=running.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str], seconds: float = 240) -> tuple[int, str]:
    try:
        out, err = process.communicate(timeout=seconds)
    finally:
        process.kill()
        process.wait(10)
    return process.returncode, out + err
