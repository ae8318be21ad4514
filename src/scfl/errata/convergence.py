"""The paper's convergence analysis: its lemmas, its theorem, and what they take for granted."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scfl.core.coding import CodedData, encode
from scfl.core.gradient import compute_gradient
from scfl.core.moments import measure_moments
from scfl.core.sampling import store_blocks
from scfl.core.theory import lemma, printed
from scfl.core.theory.limit import effective_system, expect_gap_share, measure_gap
from scfl.core.theory.printed import Assumption, Setting
from scfl.core.theory.variance import measure_coded_variance
from scfl.errata.erratum import Erratum, Figure

Matrix = NDArray[Any]


def _regress(rows: int, features: int, outputs: int) -> tuple[Matrix, Matrix]:
    """Rows, and targets of which the features explain a part."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((rows, features))
    return X, X @ rng.standard_normal((features, outputs)) + rng.standard_normal((rows, outputs))


def _code(X: Matrix, Y: Matrix, rows: int, seed: int) -> tuple[Matrix, Matrix]:
    streams = [np.random.default_rng([seed, part]) for part in range(2)]
    return encode(X, Y, rows, code=streams[0], noise=streams[1])


def _hold(features: Matrix, targets: Matrix) -> CodedData:
    return CodedData(store_blocks(features, targets, np.array([[len(features)]])))


def _show_noise_deviation() -> tuple[Figure, ...]:
    clients, coded_rows, features = 4, 40, 6
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((10_000, clients, coded_rows, features)).sum(axis=1)
    off = noise.swapaxes(1, 2) @ noise / coded_rows - clients * np.eye(features)
    return (
        Figure("printed", printed.noise_deviation(features, coded_rows, clients=clients)),
        Figure("corrected", lemma.noise_deviation(features, coded_rows, clients=clients)),
        Figure("mean of 10,000 draws", float(np.square(off).sum(axis=(1, 2)).mean())),
    )


def _show_cross_product() -> tuple[Figure, ...]:
    clients, coded_rows, rows, features = 3, 20, 10, 5
    rng = np.random.default_rng(2)
    code = rng.standard_normal((10_000, coded_rows, rows))
    noise = rng.standard_normal((10_000, clients, coded_rows, features)).sum(axis=1)
    squares = np.square(code.swapaxes(1, 2) @ noise).sum(axis=(1, 2))
    right = lemma.cross_product(rows, features, clients=clients, coded_rows=coded_rows)
    return (
        Figure("printed", printed.cross_product(rows, features, clients=clients)),
        Figure("corrected", right),
        Figure("mean of 10,000 draws", float(squares.mean())),
    )


def _show_coded_product() -> tuple[Figure, ...]:
    X, Y = _regress(200, 5, 2)
    model = np.ones((5, 2))
    bound = float(np.square(X).sum() * np.square(X @ model - Y).sum())
    figures = []
    for coded_rows in (10, 100, 1_000):
        features, targets = _code(X, Y, coded_rows, seed=3)
        product = np.square(features).sum() * np.square(features @ model - targets).sum()
        figures.append(Figure(f"c = {coded_rows:,}: times the bound", float(product) / bound))
    return tuple(figures)


def _show_bound() -> tuple[Figure, ...]:
    X, Y = _regress(200, 5, 2)
    model = np.ones((5, 2))
    data, residual = (np.array([np.square(part).sum()]) for part in (X, X @ model - Y))
    bounds = Assumption(data, residual, radius=float(np.linalg.norm(model)))
    everybody = np.array([200.0])
    setting = Setting(everybody, everybody, np.ones(1), 5, coded_rows=100, server_rows=50)
    rng, gradients = np.random.default_rng(4), []
    for seed in range(2_000):
        features, targets = _code(X, Y, 100, seed=seed)
        coins = (rng.random(100) < 0.5) / 50
        gradients.append(compute_gradient(features, targets, model, coins))
    exact = measure_coded_variance(X, Y, model, coded_rows=100, sampled_rows=50, coins=True)
    return (
        Figure("printed rho", printed.bound_variance(bounds, setting)),
        Figure("corrected rho", lemma.bound_variance(bounds, setting)),
        Figure("exact", exact.total / 4),
        Figure("measured over 2,000 codes", float(np.var(gradients, axis=0).sum()) / 4),
    )


def _show_one_code() -> tuple[Figure, ...]:
    width, coded_rows, rounds = 40, 120, 400
    X, Y = _regress(400, width, 3)
    moments = measure_moments(X, Y)
    least = len(X) * moments.loss(moments.solution)

    def train(codes: Iterable[tuple[Matrix, Matrix]]) -> float:
        model, average = np.zeros((width, 3)), np.zeros((width, 3))
        for turn, (features, targets) in enumerate(codes):
            direction = compute_gradient(X, Y, model)
            direction += compute_gradient(features, targets, model) / coded_rows
            model = model - 0.2 / len(X) * direction
            average += model / (rounds / 2) if turn >= rounds / 2 else 0.0
        return measure_gap(moments, average) / least

    once = _code(X, Y, coded_rows, seed=0)
    limit = effective_system(moments, _hold(*once)).solution
    fresh = train(_code(X, Y, coded_rows, seed=turn) for turn in range(rounds))
    return (
        Figure("excess over least loss, a fresh code every round", fresh),
        Figure("one code", train(repeat(once, rounds))),
        Figure("at the fixed point", measure_gap(moments, limit) / least),
        Figure("expected from d/c alone", expect_gap_share(width, coded_rows)),
    )


def _show_make_up() -> tuple[Figure, ...]:
    clients, width, coded_rows = 20, 40, 120
    X, Y = _regress(400, width, 3)
    X = X * np.linspace(0.1, 1, width)
    moments = measure_moments(X, Y)
    figures = []
    rng = np.random.default_rng(5)
    features, targets = _code(X, Y, coded_rows, seed=0)
    noise = rng.standard_normal(features.shape)
    for shrink in (1.0, 20.0, 200.0):
        held = _hold(features + math.sqrt(shrink) * noise, targets)
        system = effective_system(moments, held, shrink=shrink)
        name = f"n sigma^2 = {shrink:g} (sigma = {math.sqrt(shrink / clients):.2g})"
        figures.append(Figure(f"{name}: smallest eigenvalue", system.smallest_eigenvalue))
    step, model, norms = 0.5 / len(X), np.zeros((width, 3)), {}
    for turn in range(1, 401):
        model = model - step * 0.5 * (system.curvature @ model - system.pull)
        norms[turn] = float(np.linalg.norm(model))
    figures.append(Figure("n sigma^2 = 200: ||W|| after 200 rounds", norms[200]))
    figures.append(Figure("after 400 rounds", norms[400]))
    return tuple(figures)


def _show_horizon() -> tuple[Figure, ...]:
    rounds = np.arange(1, 1_001)
    # The cited proof adds D^2 / (R gamma_R) and (rho / 2 R) sum gamma_r, with D^2 = 2 phi^2.
    by_horizon = 1 + 1
    by_round = 1 + float((rounds**-0.5).sum()) / math.sqrt(rounds[-1])
    return (
        Figure("factor on phi sqrt(rho / R), printed", 2.0),
        Figure("what the proof gives with gamma of the horizon R", by_horizon),
        Figure("with gamma of the round r, as printed (R = 1,000)", by_round),
    )


def _show_step() -> tuple[Figure, ...]:
    X, Y = _regress(400, 40, 3)
    X = X * np.linspace(0.5, 1, 40)
    moments = measure_moments(X, Y)
    zeta = float(np.square(X).sum())
    largest = float(np.linalg.eigvalsh(moments.curvature)[-1])
    least, ends = len(X) * moments.loss(moments.solution), []
    for step in (1 / zeta, 1 / largest):
        model = np.zeros((40, 3))
        for _ in range(20):
            model = model - step * compute_gradient(X, Y, model)
        ends.append(measure_gap(moments, model) / least)
    return (
        Figure("printed step 1 / zeta, at most", 1 / zeta),
        Figure("1 / the largest eigenvalue", 1 / largest),
        Figure("excess over least loss after 20 full gradients, printed step", ends[0]),
        Figure("with the other", ends[1]),
    )


ERRATA = (
    Erratum(
        "noise-deviation",
        "Lemma 1, second bullet",
        "A factor n is missing",
        "`E ||N^T N / c - n I||_F^2 = n (d + d^2) / c`.",
        "N is a sum of n noises, so its entries have variance n and the value is "
        "`n^2 (d + d^2) / c`.",
        "`core.theory.printed` has the first, `core.theory.lemma` the second.",
        _show_noise_deviation,
    ),
    Erratum(
        "cross-product",
        "Appendix, equation (9)",
        "A factor c is missing",
        "`E ||G^T N||_F^2 = d m n`, so that this part of rho falls as `1/c^2`.",
        "Each of the d m entries is a sum of c products: `c d m n`, and the part falls as `1/c`.",
        "`core.theory.printed` and `core.theory.lemma` again.",
        _show_cross_product,
    ),
    Erratum(
        "coded-product",
        "Appendix, equation (8)",
        "A bound on the data is used for the code",
        "`||X~||^2 ||X~ W - Y~||^2 <= zeta kappa`.",
        "Each factor is a sum over c coded rows, so the product grows with `c^2`.",
        "Nothing rests on it: the variance of sampled coded rows is computed exactly.",
        _show_coded_product,
    ),
    Erratum(
        "lemma-3",
        "Lemma 3",
        "The bound is far from the variance",
        "rho has a coding part of `(m + m^2) zeta kappa / c`.",
        "A code mixes all rows at once: the exact variance has no factor `m^2`.",
        "`core.theory.variance` is exact, for summed and stacked codes and every way to sample.",
        _show_bound,
    ),
    Erratum(
        "one-code",
        "Theorem 1",
        "The code is drawn once, the proof draws it every round",
        "The gap goes to 0 as `sqrt(4 phi^2 rho / R) + 2 phi^2 zeta / R`.",
        "The coding error is the same in every round: training ends at the solution of "
        "`(X^T X + X~^T X~ / c - n sigma^2 I) W = X^T Y + X~^T Y~ / c`, not at the optimum.",
        "`core.theory.limit` gives that point, its gap, and what to expect of d / c alone.",
        _show_one_code,
    ),
    Erratum(
        "make-up-term",
        "Equation (3), Assumption 2",
        "The make-up term can take away more curvature than there is",
        "`- n sigma^2 W` makes the gradient unbiased, and W stays bounded.",
        "Unbiased over codes; but the one code that was drawn leaves a quadratic that is not "
        "convex once the noise is large, and nothing in the algorithm bounds W.",
        '`scfl check` and `scfl run` warn before the first round; `make-up = "safe"` takes away '
        "only as much as leaves a limit.",
        _show_make_up,
    ),
    Erratum(
        "step-horizon",
        "Theorem 1",
        "gamma is said with r where the proof needs R",
        "`gamma = sqrt(4 phi^2 / (rho r))` in round r.",
        "The cited theorem fixes gamma by the horizon R; with r its proof ends at about 3, not 2, "
        "times `phi sqrt(rho / R)`.",
        "`scfl.TheoremOne` takes the step as printed; no bound is claimed for it.",
        _show_horizon,
    ),
    Erratum(
        "step-size",
        "Theorem 1",
        "The step is far too short",
        "`eta = 1 / (zeta + 1/gamma)` with `zeta >= ||X||_F^2`.",
        "The loss is as smooth as the largest eigenvalue of `X^T X`, which is up to d times less "
        "than its trace `||X||_F^2`.",
        "The default is a constant rate; `[search]` tunes it for every method alike.",
        _show_step,
    ),
)
