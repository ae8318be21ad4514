"""Take what an experiment came to into the documentation and into what is expected of it.

    python docs/publish.py runs/figure-1-mnist runs/figure-1-mnist-quick ...

Copies the page and its pictures of full editions, merges ``expected.json`` of either edition into
the experiment's own, and writes the tables in docs/experiments.md and docs/which-method.md again.
Without folders it does the last only.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from scfl.experiments.catalogue import list_experiments, load_experiment
from scfl.experiments.overview import write_overview
from scfl.experiments.side_by_side import write_comparisons
from scfl.study.folder import to_json

DOCS = Path(__file__).parent
SHELF = DOCS.parent / "src" / "scfl" / "experiments"


def publish(out: Path) -> None:
    """Take over one folder that `scfl figure` wrote."""
    page = next(out.glob("*.md"))
    target = SHELF / page.stem / "expected.json"
    found = json.loads((out / "expected.json").read_text("utf-8"))
    known = json.loads(target.read_text("utf-8")) if target.is_file() else {}
    merged = {**known, **found}
    target.write_bytes(to_json({edition: merged[edition] for edition in sorted(merged)}))
    if "full" in found:
        for path in (page, *out.glob("*.svg")):
            shutil.copy(path, DOCS / "experiments" / path.name)


def write_tables() -> None:
    """Put the verdicts and the list of pages between their marks."""
    shipped = [load_experiment(name) for name in list_experiments()]
    pages = "".join(
        f"- [{each.figure.title}](experiments/{each.name}.md): `{each.name}`, "
        f"{each.expected['took']['cpu_s'] / 60:.1f} CPU-minutes\n"
        for each in shipped
        if each.expected is not None
    )
    fill("experiments.md", {"overview": write_overview(shipped), "pages": pages})
    fill("which-method.md", write_comparisons())


def fill(name: str, contents: Mapping[str, str]) -> None:
    """Put what was written between the marks of a page."""
    page = DOCS / name
    text = page.read_text("utf-8")
    for mark, content in contents.items():
        pattern = rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)"
        text = re.sub(pattern, lambda m, new=content: m[1] + new + m[2], text, flags=re.DOTALL)
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        publish(Path(folder))
    write_tables()
