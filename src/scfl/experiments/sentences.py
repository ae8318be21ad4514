"""The sentences that experiments test, the paper's or close to it, and why one may fail.

A reason is what theory and measurements elsewhere make of a failure; it is shown only where the
data show one.
"""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    "cfl-fb-slow": "CFL-FB has a high training latency: mini-batches converge sooner.",
    "fedavg-slow": (
        "FL-PMA(0) converges slower than SCFL, CodedFedL and DP-CFL, due to stragglers."
    ),
    "dropping-is-faster": "FL-PMA converges faster the more stragglers it drops.",
    "dropping-ends-lower": (
        "The more FL-PMA drops, the worse the model it ends with on non-IID data."
    ),
    "dp-cfl-slow": (
        "DP-CFL prolongs training compared with SCFL: it leaves the clients' computing unused."
    ),
    "codedfedl-comparable": "CodedFedL converges about as fast as SCFL.",
    "coding-helps": (
        "Ours: coded data makes the same rounds (FL-IPW's) converge sooner or end better."
    ),
    "rounds-beat-one-shot": (
        "Ours: SCFL is there before one upload of exact sums of products would have been."
    ),
    "accuracy-falls": "A smaller privacy budget degrades the model.",
    "scfl-best": (
        "SCFL has a better privacy-performance tradeoff than CodedFedL and DP-CFL, at every budget."
    ),
    "coding-pays": (
        "Ours: at some budget coded data is worth its release: SCFL ends above FL-IPW, which "
        "releases none."
    ),
    "curvature-rounds": (
        "Ours: coded data as curvature needs a tenth of the rounds of SCFL to where SCFL ends."
    ),
    "curvature-sooner": (
        "Ours: it is there ten times sooner (five times with encoding and upload counted for both)."
    ),
    "curvature-momentum": (
        "Ours: it needs half the rounds of gradient descent with momentum and no code."
    ),
    "resilient-best": "Ours: where clients are lost, resilient ends above every other method.",
    "resilient-no-worse": "Ours: resilient ends at most 0.002 below any other method.",
    "resilient-near": (
        "Ours: resilient ends near the optimum of everybody's data: within 0.006 on MNIST, 0.010 "
        "elsewhere."
    ),
    "grid-sound": (
        "Ours: no method of ours diverges, whoever leaves, whatever the noise and the code's size."
    ),
    "grid-no-worse": "Ours: resilient ends at most 0.002 below the best other method.",
    "grid-keeps": "Ours: resilient ends no lower than it had been before clients left.",
    "no-code-best": (
        "Ours: for a guarantee use no code: momentum ends above every method that releases one."
    ),
}

_FLOOR = (
    "The code is drawn once, so its error is the same in every round and does not average out: "
    "SCFL converges to a neighbourhood of the optimum of size d/c, and half of every step is it."
)
_INDEFINITE = (
    "With the make-up term the curvature that SCFL descends, X'X + X~'X~/c - n sigma^2 I, is "
    "indefinite under much noise: the method then has no limit, and only a small learning rate, "
    "that is stopping early, keeps its model."
)

REASONS: Mapping[str, str] = {
    "fedavg-slow": (
        "With allocated batches there are few stragglers left to wait for: a round of FedAvg is "
        "about as long as the deadline, and it misses nobody."
    ),
    "dropping-is-faster": (
        "Its rounds are shorter, but the classes of whoever is dropped are missing from most "
        "steps, so it takes more of them, or never gets there."
    ),
    "dp-cfl-slow": (
        "The server is ten times as fast as the fastest client and waits for no link: with small "
        "batches it takes many steps in the time of one round of SCFL."
    ),
    "codedfedl-comparable": _FLOOR,
    "coding-helps": _FLOOR,
    "scfl-best": (
        "With little noise there is little to make up, and DP-CFL takes many more steps in the "
        f"same time. {_FLOOR} {_INDEFINITE}"
    ),
    "coding-pays": (
        "FL-IPW takes the same rounds and has no noise to suffer; but its gradients, like SCFL's, "
        f"are released without any, which no budget here covers. {_FLOOR}"
    ),
    "curvature-sooner": (
        "Where encoding and upload are counted and both ask for codes of the same size and layout, "
        "they take most of the time of both."
    ),
}
