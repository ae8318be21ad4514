"""Features of images: the convolutions against loops, and an extraction that is gone on with."""

from __future__ import annotations

import hashlib
import json
import pickle
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray

from scfl.data import catalogue, extraction, install, vgg
from scfl.data.catalogue import CIFAR_10, CIFAR_10_VGG16, CIFAR_10_VGG16_SMALL
from scfl.data.extraction import extract_features, measure_columns, standardise
from scfl.data.install import find_damage, install_set, load_set
from scfl.errors import DataError
from tests.data.test_cifar import write_binary
from tests.data.test_install import quiet
from tests.data.tiny_sets import Arrays, draw_images, known_as

Floats = NDArray[np.float32]
RNG = np.random.default_rng(1)


def draw_layers(channels: int = 2) -> list[tuple[Floats, Floats]]:
    """VGG-16 with few channels."""
    widths = [3] + [channels] * 13
    return [
        (
            RNG.standard_normal((3, 3, inputs, outputs), dtype=np.float32),
            RNG.standard_normal(outputs, dtype=np.float32),
        )
        for inputs, outputs in pairwise(widths)
    ]


def convolve_slowly(image: Floats, kernel: Floats, bias: Floats) -> Floats:
    height, width, _ = image.shape
    out = np.zeros((height, width, kernel.shape[3]))
    for y in range(height):
        for x in range(width):
            for dy in range(3):
                for dx in range(3):
                    if 0 <= y + dy - 1 < height and 0 <= x + dx - 1 < width:
                        out[y, x] += image[y + dy - 1, x + dx - 1] @ kernel[dy, dx]
    return np.maximum(out + bias, 0).astype(np.float32)


def describe_slowly(image: NDArray[np.uint8], layers: list[tuple[Floats, Floats]]) -> Floats:
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    maps = ((image / 255 - mean) / deviation).astype(np.float32)
    averages, number = [], 0
    for block, depth in enumerate((2, 2, 3, 3, 3)):
        if block:
            half = len(maps) // 2
            maps = np.array(
                [
                    [maps[2 * y : 2 * y + 2, 2 * x : 2 * x + 2].max((0, 1)) for x in range(half)]
                    for y in range(half)
                ]
            )
        for _ in range(depth):
            maps = convolve_slowly(maps, *layers[number])
            number += 1
        if block >= 3:
            half = len(maps) // 2
            averages += [
                maps[y : y + half, x : x + half].mean((0, 1)) for y in (0, half) for x in (0, half)
            ]
    return np.concatenate(averages)


def test_features_are_those_of_loops() -> None:
    layers = draw_layers()
    images = draw_images((32, 32, 3), rows=vgg._BATCH + 1)["X"]
    found = vgg.describe_images(images, layers)
    assert found.shape == (len(images), 2 * 4 * 2)
    for row in (0, vgg._BATCH):
        np.testing.assert_allclose(found[row], describe_slowly(images[row], layers), rtol=1e-4)


def test_columns_are_measured_piece_by_piece(tmp_path: Path) -> None:
    rows = 5 + RNG.standard_normal((70, 4)).astype(np.float32)
    pieces = [tmp_path / f"{number}.npy" for number in range(3)]
    for path, piece in zip(pieces, np.split(rows, [10, 11]), strict=True):
        np.save(path, piece)
    mean, deviation = measure_columns(pieces)
    np.testing.assert_allclose(mean, rows.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(deviation, rows.std(axis=0), rtol=1e-6)
    scaled = standardise(pieces, np.stack([mean, deviation]), quiet)
    wanted = np.clip((rows - mean) / (4 * deviation), -1, 1)
    np.testing.assert_allclose(scaled, wanted, atol=1e-3)
    assert np.abs(scaled).max() <= 1


def test_a_column_that_never_changes_becomes_zero(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.full((5, 1), 3.0, dtype=np.float32))
    columns = measure_columns([tmp_path / "a.npy"])
    assert (standardise([tmp_path / "a.npy"], columns, quiet) == 0).all()


def test_an_interrupted_extraction_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extraction, "PIECE_ROWS", 4)
    monkeypatch.setattr(extraction, "cpu_count", lambda: 1)
    images, layers = draw_images((32, 32, 3), rows=10)["X"], draw_layers()

    def interrupt(stage: str, done: int, total: int) -> None:
        assert total == 3
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract_features([("X", images)], layers, tmp_path / "pieces", interrupt)
    (first,) = (tmp_path / "pieces").iterdir()
    marked = np.zeros_like(np.load(first))
    np.save(first, marked)
    (listed,) = extract_features([("X", images)], layers, tmp_path / "pieces", quiet)
    together = np.concatenate([np.load(path) for path in listed])
    np.testing.assert_array_equal(together[:4], marked)
    np.testing.assert_array_equal(together[4:], vgg.describe_images(images, layers)[4:])


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny CIFAR-10 in the cache, and the file of a tiny network."""
    monkeypatch.setenv("SCFL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(extraction, "cpu_count", lambda: 1)
    arrays: Arrays = draw_images((32, 32, 3))
    images = known_as(CIFAR_10, arrays, monkeypatch)
    folder = tmp_path / "images"
    folder.mkdir()
    write_binary(folder, arrays)
    install_set("cifar-10", quiet, folder)
    named = {
        f"Conv_{number}": {"kernel": kernel, "bias": bias}
        for number, (kernel, bias) in enumerate(draw_layers())
    }
    path = tmp_path / "network" / "vgg16.ckpt"
    path.parent.mkdir()
    path.write_bytes(pickle.dumps({"VGG16_0": named}, protocol=3))
    known = hashlib.sha256(path.read_bytes()).hexdigest()
    tiny = replace(CIFAR_10_VGG16, images=images, weights_sha256=known)
    monkeypatch.setitem(catalogue._SETS, "cifar-10-vgg16", tiny)
    small = replace(CIFAR_10_VGG16_SMALL, images=images, weights_sha256=known, rows=9, test_rows=4)
    monkeypatch.setitem(catalogue._SETS, "cifar-10-vgg16-small", small)
    return path


def test_features_become_a_set_with_its_scaling(weights: Path) -> None:
    folder = install_set("cifar-10-vgg16", quiet, weights.parent)
    data = load_set(folder)
    assert data.X.shape == (30, 16)
    assert np.abs(data.X).max() <= 1
    mean, deviation = np.load(folder / "scaling.npy")
    images = np.load(folder.parent / "cifar-10" / "X_test.npy")
    features = vgg.describe_images(images, vgg.read_layers(weights))
    scale = np.where(deviation > 1e-6, 4 * deviation, np.inf)
    assert data.test is not None
    np.testing.assert_allclose(data.test[0], np.clip((features - mean) / scale, -1, 1), atol=1e-3)
    assert json.loads((folder / "manifest.json").read_text())["scaling"]["cut_off"] == 4
    assert find_damage("cifar-10-vgg16", quiet) == []
    (folder / "X.npy").write_bytes(b"")
    assert len(find_damage("cifar-10-vgg16", quiet)) == 1


def test_a_small_set_describes_the_first_images_only(weights: Path) -> None:
    folder = install_set("cifar-10-vgg16-small", quiet, weights.parent)
    data = load_set(folder)
    assert data.test is not None
    assert (len(data.X), len(data.test[0])) == (9, 4)
    images, labels = (np.load(folder.parent / "cifar-10" / f"{part}.npy")[:9] for part in "Xy")
    features = vgg.describe_images(images, vgg.read_layers(weights))
    mean, deviation = features.mean(axis=0), features.std(axis=0)
    scale = np.where(deviation > 1e-6, 4 * deviation, np.inf)
    np.testing.assert_allclose(data.X, np.clip((features - mean) / scale, -1, 1), atol=1e-3)
    np.testing.assert_array_equal(data.y, labels)


def test_a_small_set_takes_its_rows_from_the_whole_one(
    weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = install_set("cifar-10-vgg16", quiet, weights.parent)
    monkeypatch.setattr(install, "extract_features", Mock(side_effect=AssertionError))
    folder = install_set("cifar-10-vgg16-small", quiet)
    everything, data = load_set(whole), load_set(folder)
    assert everything.test is not None
    assert data.test is not None
    np.testing.assert_array_equal(data.X, everything.X[:9])
    np.testing.assert_array_equal(data.y, everything.y[:9])
    np.testing.assert_array_equal(data.test[0], everything.test[0][:4])
    np.testing.assert_array_equal(data.test[1], everything.test[1][:4])
    np.testing.assert_array_equal(np.load(folder / "scaling.npy"), np.load(whole / "scaling.npy"))
    assert json.loads((folder / "manifest.json").read_text())["origin"] == str(whole)
    assert find_damage("cifar-10-vgg16-small", quiet) == []


def test_a_damaged_whole_set_lends_no_rows(weights: Path) -> None:
    whole = install_set("cifar-10-vgg16", quiet, weights.parent)
    (whole / "X.npy").write_bytes(b"")
    folder = install_set("cifar-10-vgg16-small", quiet, weights.parent)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["origin"] == str(weights.parent)


def test_other_weights_are_refused(weights: Path) -> None:
    weights.write_bytes(weights.read_bytes() + b"x")
    with pytest.raises(DataError, match=r"vgg16\.ckpt: has SHA-256"):
        install_set("cifar-10-vgg16", quiet, weights.parent)
    weights.unlink()
    with pytest.raises(DataError, match=r"there is no vgg16\.ckpt in it"):
        install_set("cifar-10-vgg16", quiet, weights.parent)


def test_a_file_of_another_network_is_explained(tmp_path: Path) -> None:
    (tmp_path / "net").write_bytes(pickle.dumps({"Alex": 1}, protocol=3))
    with pytest.raises(DataError, match="does not hold the 13 convolutions"):
        vgg.read_layers(tmp_path / "net")
