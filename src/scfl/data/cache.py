"""The folder where data sets are kept: what is in it is whole, whatever interrupted its making.

A set is filled in beside its place and renamed into it as the last step. The unfinished folder
stays after an interrupt, so that the same command goes on from there, and a lock keeps two
processes from filling the same one.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scfl.errors import DataError, OutputError

_MANIFEST = "manifest.json"


def cache_folder() -> Path:
    """``$SCFL_CACHE``, or the folder that the system sets aside for a user's caches."""
    named = os.environ.get("SCFL_CACHE")
    if named:
        return Path(named).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "scfl"
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "scfl"


def dataset_folder(name: str) -> Path:
    """Where a data set is kept, whether it is there or not."""
    return cache_folder() / "datasets" / name


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """What a finished folder says of itself; nothing where there is no whole one."""
    try:
        content = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and "digests" in content else None


@contextmanager
def claim(target: Path) -> Iterator[Path]:
    """Hold the unfinished folder of ``target``, with what an earlier attempt left in it."""
    aside = target.parent / f".{target.name}.unfinished"
    try:
        aside.mkdir(parents=True, exist_ok=True)
        lock = (aside / "lock").open("w")
    except OSError as error:
        raise unwritable(target.parent, error) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OutputError(
                f"another process is getting {target.name} at this moment; wait until it has ended"
            ) from None
        try:
            yield aside
        except OutputError:
            raise
        except OSError as error:
            if error.filename and aside not in Path(error.filename).parents:
                reason = error.strerror or error
                raise DataError(f"{error.filename}: cannot be read ({reason})") from None
            raise unwritable(aside, error) from None


def finish(aside: Path, ready: Path, target: Path, manifest: Mapping[str, Any]) -> None:
    """Put ``ready`` in its place in one step, and drop what is left of the attempt."""
    text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    (ready / _MANIFEST).write_text(text, encoding="utf-8")
    for path in ready.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    shutil.rmtree(target, ignore_errors=True)
    ready.rename(target)
    shutil.rmtree(aside, ignore_errors=True)


def unwritable(folder: Path, error: OSError) -> OutputError:
    return OutputError(
        f"{folder} cannot be written ({error.strerror or error}); make room or make it writable, "
        "or name another folder in the environment variable SCFL_CACHE"
    )
