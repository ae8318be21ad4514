"""The documentation's examples run: Python, configurations and commands, page by page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    path.relative_to(ROOT)
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    if "```" in path.read_text(encoding="utf-8")
)
BLOCK = re.compile(r"^```(python|toml|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_commands(text: str, folder: Path) -> None:
    """Run the lines that call scfl; `make` and the rest are for people."""
    for line in text.splitlines():
        words, _, comment = line.partition("#")
        if not words.startswith("scfl "):
            continue
        command = words.strip().replace("scfl ", f"{sys.executable} -m scfl ", 1)
        done = subprocess.run(
            ["sh", "-c", command], cwd=folder, capture_output=True, text=True, check=False
        )
        wanted = int(comment.split("exit")[1]) if "exit" in comment else 0
        assert done.returncode == wanted, f"{line}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a page share a folder and a namespace; a TOML block is the file it names first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("scfl.methods.registry._METHODS", dict(_known()))
    namespace: dict[str, object] = {"__name__": "__docs__"}
    for kind, text in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
        if kind == "python":
            module = sys.modules.setdefault("__docs__", type(sys)("__docs__"))
            namespace = module.__dict__
            exec(compile(text, str(page), "exec"), namespace)  # noqa: S102 - our own examples
        elif kind == "console":
            run_commands(text, tmp_path)
        else:
            name = re.match(r"# (\S+\.toml)", text)
            assert name, f"{page}: a TOML block names its file in its first line"
            (tmp_path / name[1]).write_text(text, encoding="utf-8")
            command = "scfl network check" if "[network]" in text else "scfl check"
            run_commands(f"{command} {name[1]}", tmp_path)


def test_links_lead_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)[#)]", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} points to {target}"


def _known() -> dict[str, type]:
    from scfl import known_methods  # noqa: PLC0415

    return dict(known_methods())
