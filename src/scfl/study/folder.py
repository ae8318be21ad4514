"""A study's folder: what is finished is whole, and what is half-written is never taken for it."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scfl.errors import OutputError
from scfl.study.jobs import Job
from scfl.study.outcome import Outcome


class StudyFolder:
    """Where a study keeps its runs. A run's folder appears under its name only when complete."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def claim(self, manifest: Mapping[str, Any]) -> None:
        """Make the folder this study's, or refuse it if it is another's."""
        owner = self.read_manifest()
        if owner is not None and owner.get("config_hash") != manifest["config_hash"]:
            raise OutputError(
                f"{self.path} holds the results of another configuration "
                f"({owner.get('name', 'unnamed')}); choose another --out or remove that folder"
            )
        if owner is None and self.path.is_dir() and any(self.path.iterdir()):
            raise OutputError(
                f"{self.path} is not empty and holds no study; choose another --out or empty it"
            )
        try:
            (self.path / "runs").mkdir(parents=True, exist_ok=True)
            for left_over in self.path.glob("*/.unfinished-*"):
                shutil.rmtree(left_over, ignore_errors=True)
        except OSError as error:
            raise OutputError(
                f"{self.path} cannot be written ({error.strerror}); choose another --out"
            ) from None
        self.write("manifest.json", manifest)

    def read_manifest(self) -> dict[str, Any] | None:
        try:
            content = json.loads((self.path / "manifest.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            raise OutputError(f"{self.path} is a file; choose another --out") from None
        except (OSError, ValueError):
            raise OutputError(
                f"{self.path}/manifest.json cannot be read; choose another --out or remove it"
            ) from None
        return content if isinstance(content, dict) else None

    def has(self, job: Job) -> bool:
        """Whether the run is here, complete."""
        return (self.path / job.folder / "result.json").is_file()

    def read_summary(self, job: Job) -> dict[str, Any]:
        text = (self.path / job.folder / "result.json").read_text(encoding="utf-8")
        summary: dict[str, Any] = json.loads(text)["summary"]
        return summary

    def keep(self, job: Job, outcome: Outcome) -> None:
        """Store a run: written aside, flushed to disk, then renamed into place in one step."""
        target = self.path / job.folder
        target.parent.mkdir(exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=target.parent))
        result = {"summary": outcome.summary, "clients": outcome.clients}
        _write_flushed(aside / "trace.parquet", outcome.trace)
        _write_flushed(aside / "ledger.parquet", outcome.ledger)
        _write_flushed(aside / "result.json", to_json(result))
        aside.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        aside.rename(target)

    def write(self, name: str, content: Any) -> None:
        """Replace a JSON file in one step."""
        aside = self.path / f".{name}.unfinished"
        _write_flushed(aside, to_json(content))
        aside.replace(self.path / name)


def to_json(content: Any) -> bytes:
    """The one way scfl writes JSON: strict, readable, the same bytes for the same content."""
    return (json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _write_flushed(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
