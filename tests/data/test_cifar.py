"""CIFAR-10 in its three forms, and pickles that would like to do more than hold arrays."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scfl.data.catalogue import CIFAR_10
from scfl.data.cifar import BATCHES, SHEET_LABELS, TEST_BATCH
from scfl.data.install import install_set
from scfl.data.unpickle import read_pickle
from scfl.errors import DataError
from tests.data.test_install import quiet
from tests.data.tiny_sets import Arrays, draw_images, known_as, pack

NAMES = (*BATCHES, TEST_BATCH)


def split(arrays: Arrays) -> list[tuple[np.ndarray, np.ndarray]]:
    """Five batches to train on and one to test on, as (images, labels)."""
    train = zip(np.split(arrays["X"], 5), np.split(arrays["y"], 5), strict=True)
    return [*train, (arrays["X_test"], arrays["y_test"])]


def in_planes(images: np.ndarray) -> np.ndarray:
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1)


def write_python(folder: Path, arrays: Arrays) -> None:
    for name, (images, labels) in zip(NAMES, split(arrays), strict=True):
        content = {b"data": in_planes(images), b"labels": labels.tolist(), b"batch_label": b"x"}
        (folder / name).write_bytes(pickle.dumps(content, protocol=3))


def write_binary(folder: Path, arrays: Arrays) -> None:
    for name, (images, labels) in zip(NAMES, split(arrays), strict=True):
        records = np.concatenate([labels[:, None], in_planes(images)], axis=1)
        (folder / f"{name}.bin").write_bytes(records.tobytes())


def write_sheets(folder: Path, arrays: Arrays) -> None:
    for name, (images, _) in zip(NAMES, split(arrays), strict=True):
        Image.fromarray(images.reshape(len(images), 1024, 3)).save(folder / f"{name}.png")
    for name, labels in zip(SHEET_LABELS, (arrays["y"], arrays["y_test"]), strict=True):
        (folder / name).write_text(json.dumps(labels.tolist()))


@pytest.fixture
def arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Arrays:
    monkeypatch.setenv("SCFL_CACHE", str(tmp_path / "cache"))
    images = draw_images((32, 32, 3))
    known_as(CIFAR_10, images, monkeypatch)
    return images


@pytest.mark.parametrize("write", [write_python, write_binary, write_sheets])
@pytest.mark.parametrize("packed", [False, True])
def test_every_form_gives_the_same_images(
    tmp_path: Path, arrays: Arrays, write: Callable[[Path, Arrays], None], packed: bool
) -> None:
    source = tmp_path / "mine"
    source.mkdir()
    write(source, arrays)
    folder = install_set(
        "cifar-10", quiet, pack(source, tmp_path / "a.tar.gz") if packed else source
    )
    for name, array in arrays.items():
        np.testing.assert_array_equal(np.load(folder / f"{name}.npy"), array)


def test_what_is_damaged_is_named(tmp_path: Path, arrays: Arrays) -> None:
    write_binary(tmp_path, arrays)
    (tmp_path / "data_batch_3.bin").write_bytes(b"short")
    with pytest.raises(DataError, match=r"data_batch_3\.bin: 5 bytes are not records of 3073"):
        install_set("cifar-10", quiet, tmp_path)
    (tmp_path / "data_batch_3.bin").unlink()
    with pytest.raises(DataError, match=r"there is no data_batch_3\.bin in it"):
        install_set("cifar-10", quiet, tmp_path)
    write_sheets(tmp_path, arrays)
    (tmp_path / "test_batch.png").write_bytes(b"not a picture")
    with pytest.raises(DataError, match=r"test_batch\.png: cannot be read as a picture"):
        install_set("cifar-10", quiet, tmp_path)


def test_a_pickle_of_another_kind_is_explained(tmp_path: Path, arrays: Arrays) -> None:
    write_python(tmp_path, arrays)
    (tmp_path / "data_batch_2").write_bytes(pickle.dumps({b"rows": 3}, protocol=2))
    with pytest.raises(DataError, match="data_batch_2: not a batch of CIFAR-10"):
        install_set("cifar-10", quiet, tmp_path)
    (tmp_path / "data_batch_2").write_bytes(b"\x80\x02}")
    with pytest.raises(DataError, match="data_batch_2: a damaged pickle"):
        install_set("cifar-10", quiet, tmp_path)


class Burglar:
    """What a pickle can do in other hands: run any function that it names."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_pickle_runs_nothing(tmp_path: Path, protocol: int) -> None:
    mark = tmp_path / "been-here"
    content = pickle.dumps({"kernel": np.ones(3), "loot": Burglar(mark)}, protocol=protocol)
    pickle.loads(content)  # noqa: S301 - it does work where nobody looks
    assert mark.exists()
    mark.unlink()
    (tmp_path / "evil").write_bytes(content)
    with pytest.raises(DataError, match="evil: it wants to run"):
        read_pickle(tmp_path / "evil")
    assert not mark.exists()


def test_arrays_of_objects_are_refused(tmp_path: Path) -> None:
    objects = np.array([{}, None], dtype=object)
    (tmp_path / "objects").write_bytes(pickle.dumps(objects, protocol=2))
    with pytest.raises(DataError, match="an array of type object"):
        read_pickle(tmp_path / "objects")


@pytest.mark.parametrize("protocol", [2, 3])
def test_arrays_of_numbers_are_read(tmp_path: Path, protocol: int) -> None:
    content = {
        "rows": np.arange(6, dtype=">i4").reshape(2, 3),
        "more": [np.ones((2, 2), np.float32)],
    }
    (tmp_path / "good").write_bytes(pickle.dumps(content, protocol=protocol))
    read = read_pickle(tmp_path / "good")
    np.testing.assert_array_equal(read["rows"], content["rows"])
    np.testing.assert_array_equal(read["more"][0], content["more"][0])


def test_a_batch_that_python_2_wrote_is_read(tmp_path: Path) -> None:
    """The opcodes of the official files: strings of bytes throughout."""
    raw = bytes(range(6))
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
        b"(K\x01(K\x02K\x03tcnumpy\ndtype\n(U\x02u1K\x00K\x01tR"
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x06" + raw + b"tb"
    )
    (tmp_path / "batch").write_bytes(b"\x80\x02}U\x04data" + array + b"s.")
    read = read_pickle(tmp_path / "batch", encoding="bytes")
    np.testing.assert_array_equal(read[b"data"], np.arange(6, dtype=np.uint8).reshape(2, 3))
