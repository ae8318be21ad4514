"""What the paper calls negligible."""

from __future__ import annotations

import numpy as np

from scfl.core.fleet import Shape, wireless_edge
from scfl.errata.erratum import Erratum, Figure
from scfl.methods.batches import Batches
from scfl.methods.protocol import Deadline
from scfl.methods.scfl import SCFL
from scfl.runtime.encoding import price_setup


def _show_setup() -> tuple[Figure, ...]:
    """The paper's own setting: 20 clients of 3,000 rows, 2,000 features, 10 classes, c = 6,000."""
    shape = Shape(np.full(20, 3_000), 2_000, 10)
    fleet = wireless_edge(20, random_state=0)
    figures: list[Figure] = []
    for layout in ("summed", "stacked"):
        method = SCFL(batches=Batches(subsets=30, redundancy=0.1), layout=layout)
        plan = method.plan(shape, fleet)
        setup = price_setup(plan, fleet)
        if isinstance(plan.wait, Deadline) and not figures:
            figures.append(Figure("seconds of a round", plan.wait.seconds))
        figures += [
            Figure(f"{layout}: seconds of upload, longest", float(setup.upload_s.max())),
            Figure(f"{layout}: seconds of encoding, longest", float(setup.encoding_s.max())),
        ]
    return tuple(figures)


ERRATA = (
    Erratum(
        "setup-cost",
        "Section III-A",
        "Coding is not negligible",
        "Encoding and upload happen once and so cost next to nothing.",
        "Once, but `c (d + o)` numbers a client, and `c l_i (d + o)` multiplications on the "
        "paper's own clients: more than the 6,000 s that training takes.",
        "Both are on the virtual clock unless a study says otherwise, and reports show both ways; "
        '`layout = "stacked"` needs 1/n of it.',
        _show_setup,
    ),
)
