"""Finding a set's files in whatever holds them: a folder, a tar file, or a Debian package."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Collection
from pathlib import Path

from scfl.data.packages import Report
from scfl.errors import DataError


def canonical(name: str) -> str:
    """A file's name as the sets' makers write it: not gzipped, and the dot of some mirrors gone."""
    return name.removesuffix(".gz").replace(".idx", "-idx")


def gather(path: Path, names: Collection[str], into: Path, report: Report) -> dict[str, Path]:
    """The files of these names in ``path``; those in an archive are unpacked to ``into``."""
    if path.is_dir():
        return _find(path, names)
    if not path.is_file():
        raise DataError(f"{path}: there is no such file or folder; give the path of the data")
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir()
    if path.suffix == ".deb":
        _unpack_debian(path, into, report)
    else:
        _unpack_tar(path, names, into, report)
    return _find(into, names)


def _find(folder: Path, names: Collection[str]) -> dict[str, Path]:
    """The file of each name that is nearest to the top; links inside the folder are fine."""
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*"), key=lambda path: (len(path.parts), path)):
        name = canonical(path.name)
        if name in names and path.is_file():
            found.setdefault(name, path)
    return found


def _unpack_tar(path: Path, names: Collection[str], into: Path, report: Report) -> None:
    size = path.stat().st_size
    try:
        with path.open("rb") as file, tarfile.open(fileobj=file) as archive:
            for member in archive:
                report(f"unpacking {path.name}", min(file.tell(), size), size)
                name = Path(member.name).name
                content = archive.extractfile(member) if canonical(name) in names else None
                if content is not None:
                    # By its bare name, so that no archive can write outside the folder.
                    with content, (into / name).open("wb") as unpacked:
                        shutil.copyfileobj(content, unpacked, 1 << 20)
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        if isinstance(error, OSError) and not isinstance(error, tarfile.TarError) and error.errno:
            raise
        raise DataError(
            f"{path}: not a tar file, or a damaged one ({error}); get it again, "
            "or give the folder of the unpacked files"
        ) from None


def _unpack_debian(path: Path, into: Path, report: Report) -> None:
    if shutil.which("dpkg-deb") is None:
        raise DataError(
            f"{path}: unpacking it takes dpkg-deb, which is not installed here; where it is, run "
            f"`dpkg-deb -x {path.name} FOLDER`, and give that folder"
        )
    report(f"unpacking {path.name}", 0, 0)
    done = subprocess.run(
        ["dpkg-deb", "-x", str(path), str(into)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise DataError(f"{path}: dpkg-deb cannot unpack it ({said}); get it again")
