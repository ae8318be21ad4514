"""The page on what may go wrong names code and tests that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/network-faults.md").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"`((?:tests/network/)?\w+\.\w+(?:\.\w+)?)`", PAGE)))


def names_in(path: Path) -> set[str]:
    """Functions, classes and methods of a module."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{m.name}" for m in node.body if isinstance(m, ast.FunctionDef)}
    return found


def test_the_page_names_enough() -> None:
    assert len(NAMES) > 40


@pytest.mark.parametrize("name", NAMES)
def test_what_the_page_names_is_there(name: str) -> None:
    module, _, what = name.partition(".")
    folders = ["src/scfl/runtime/network", "src/scfl/runtime/flower", "tests/runtime/network", "."]
    paths = [ROOT / folder / f"{module}.py" for folder in folders]
    assert what in names_in(next(path for path in paths if path.exists()))
