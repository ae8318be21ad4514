"""What a client keeps between messages where Flower starts a process for each of them.

A worker's prepared rows and its coded data lie in a folder that only this user can read, named
after the run and the node, so that they are made once; its secret lives in the app's context.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from scfl.runtime.network.wire import Prepare
from scfl.runtime.network.worker import Rows, Worker


class Memory:
    """A client's folder for one run."""

    def __init__(self, run_id: int, node_id: int) -> None:
        base = Path(tempfile.gettempdir()) / f"scfl-{os.getuid()}"
        base.mkdir(mode=0o700, exist_ok=True)
        if base.stat().st_uid != os.getuid() or base.is_symlink():
            raise PermissionError(f"{base} belongs to somebody else; remove it")
        self.folder = base / f"{run_id}-{node_id}"
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._recalled: object = None

    def recall(self, worker: Worker) -> None:
        """Give a worker what an earlier process prepared."""
        features, targets = self.folder / "features.npy", self.folder / "targets.npy"
        if features.exists() and targets.exists():
            worker.rows = Rows(_open(features), _open(targets))
        kept = self.folder / "coded.json"
        if kept.exists():
            request = json.loads(kept.read_text(encoding="utf-8"))
            content = _open(self.folder / "coded.npy")
            worker.coded = request, hashlib.sha256(content.data).hexdigest(), content
        self._recalled = worker.coded

    def keep(self, worker: Worker, message: object) -> None:
        """Write down what a worker has just made."""
        if isinstance(message, Prepare) and worker.rows is not None:
            (self.folder / "coded.json").unlink(missing_ok=True)
            self._save("features.npy", worker.rows.features)
            self._save("targets.npy", worker.rows.targets)
        elif worker.coded is not None and worker.coded is not self._recalled:
            (self.folder / "coded.json").unlink(missing_ok=True)
            self._save("coded.npy", worker.coded[2])
            text = json.dumps(dict(worker.coded[0]))
            (self.folder / "coded.json").write_text(text, encoding="utf-8")

    def _save(self, name: str, array: Any) -> None:
        aside = self.folder / f".{os.getpid()}-{name}"
        np.save(aside, array)
        aside.replace(self.folder / name)

    def forget(self) -> None:
        """The training is over."""
        for path in self.folder.iterdir():
            path.unlink(missing_ok=True)
        self.folder.rmdir()


def _open(path: Path) -> Any:
    """An array that stays on disk until it is read."""
    return np.asarray(np.load(path, mmap_mode="r"))
