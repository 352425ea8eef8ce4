"""Write the reference values of the tests, in exact fractions or 40 digits: ``tests/data/reference.json``.

    python scripts/write_reference.py

Nothing of keff is imported: each value comes from a definition or an enumeration, as plain as can be.
Decimal arguments are taken as the fractions that they write.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import chain, combinations, product
from math import comb, factorial, prod
from pathlib import Path
from typing import Any

import mpmath as mp

REFERENCE = Path(__file__).resolve().parent.parent / "tests" / "data" / "reference.json"
HALF = Fraction(1, 2)
mp.mp.dps = 40

Matrix = Sequence[Sequence[Any]]
Case = tuple[Callable[..., Any], dict[str, Any]]
"""A function with its arguments: ordinary ones, and the edges where formulas fail."""


def exact(value: Any) -> Any:
    """Return numbers, also nested in lists, as the fractions that they write."""
    return [exact(each) for each in value] if isinstance(value, (list, tuple)) else Fraction(str(value))


def digits(value: Fraction) -> mp.mpf:
    """Return a fraction in 40 digits."""
    return mp.mpf(value.numerator) / value.denominator


def majority(law: Sequence[Fraction]) -> Fraction:
    """Return the chance of more than half right, ties counting half, from the law of the number right."""
    k = len(law) - 1
    return sum((law[j] for j in range(k + 1) if 2 * j > k), Fraction(0)) + (
        law[k // 2] / 2 if k % 2 == 0 else 0
    )


# How much a vote is worth.


def keff_vote(K: int, c: float) -> Fraction:
    return K / (1 + (K - 1) * exact(c))


def keff_rank(K: int, rho: float) -> Fraction:
    return Fraction(K * K) / (K + K * (K - 1) * exact(rho) ** 2)


def keff_rank_of_matrix(R: Matrix) -> Fraction:
    rows = exact(R)
    return sum(rows[i][i] for i in range(len(rows))) ** 2 / sum(value**2 for row in rows for value in row)


def marginal_gain(K: int, c: float) -> Fraction:
    """Return the derivative of K / (1 + (K - 1) c) by K."""
    return (1 - exact(c)) / (1 + (K - 1) * exact(c)) ** 2


def k_star(c: float, eps: float, K_max: int, clip: Sequence[float]) -> int:
    """Return the least K whose gain is at most eps, by counting up."""
    low, high = exact(clip)
    kept = min(max(exact(c), low), high)
    gains = ((1 - kept) / (1 + (K - 1) * kept) ** 2 for K in range(1, K_max))
    return next((K for K, gain in enumerate(gains, 1) if gain <= exact(eps)), K_max)


# Laws of a majority.


def binom_mv(K: int, p: float) -> Fraction:
    q = exact(p)
    return majority([comb(K, j) * q**j * (1 - q) ** (K - j) for j in range(K + 1)])


def betabinomial(K: int, p: float, c: float) -> list[Fraction]:
    """Return the law of the number right in products, which holds for c at and below 0 too."""
    q, rho = exact(p), exact(c)
    if rho == 1:
        return [1 - q, *[Fraction(0)] * (K - 1), q]
    right, wrong, all_of = [Fraction(1)], [Fraction(1)], [Fraction(1)]
    for i in range(K):
        right.append(right[-1] * (q * (1 - rho) + i * rho))
        wrong.append(wrong[-1] * ((1 - q) * (1 - rho) + i * rho))
        all_of.append(all_of[-1] * (1 - rho + i * rho))
    return [comb(K, j) * right[j] * wrong[K - j] / all_of[K] for j in range(K + 1)]


def betabinom_mv(K: int, p: float, c: float) -> Fraction:
    return majority(betabinomial(K, p, c))


def betabinom_logpmf(K: int, p: float, c: float, j: int) -> mp.mpf:
    return mp.log(digits(betabinomial(K, p, c)[j]))


def betabinom_mv_limit(p: float, c: float) -> mp.mpf:
    """Return the chance that a beta law puts above one half."""
    size = (1 - exact(c)) / exact(c)
    a, b = digits(exact(p) * size), digits((1 - exact(p)) * size)
    return mp.betainc(b, a, 0, mp.mpf(1) / 2, regularized=True)


def multiclass_p(p: float, M: int) -> Fraction:
    return exact(p) / (exact(p) + (1 - exact(p)) / (M - 1))


def hypergeom_mv(K: int, S: int, k: int) -> Fraction:
    """Return the majority of k paths drawn from K, S of them right."""
    return majority([Fraction(comb(S, j) * comb(K - S, k - j), comb(K, k)) for j in range(k + 1)])


def hypergeom_mv_mean(K: int, counts: Sequence[int], k: int) -> Fraction:
    """Return the mean over questions, of which ``counts[S]`` have S right paths."""
    return sum(n * hypergeom_mv(K, S, k) for S, n in enumerate(counts)) / Fraction(sum(counts))


def plurality_mv(counts: Sequence[int], correct: int, k: int) -> Fraction:
    """Return the chance that ``correct`` leads among k paths drawn without return, ties broken at random."""
    found = Fraction(0)
    for drawn in product(*(range(min(n, k) + 1) for n in counts)):
        if sum(drawn) == k and drawn[correct] == max(drawn):
            ways = prod(comb(n, d) for n, d in zip(counts, drawn, strict=True))
            found += Fraction(ways, comb(sum(counts), k) * drawn.count(max(drawn)))
    return found


# Correlation of a table Y of 0 and 1, questions by paths.


def pooled_c_hat(Y: Matrix) -> Fraction:
    """Return the covariance of all pairs of paths over the variance of one."""
    n, K = len(Y), len(Y[0])
    p = Fraction(sum(map(sum, Y)), n * K)
    pairs = Fraction(sum(row[i] * row[j] for row in Y for i, j in combinations(range(K), 2)), n * comb(K, 2))
    return (pairs - p * p) / (p * (1 - p))


def anova_icc(Y: Matrix) -> Fraction:
    """Return the intraclass correlation of the one-way analysis of variance."""
    n, K = len(Y), len(Y[0])
    means, whole = [Fraction(sum(row), K) for row in Y], Fraction(sum(map(sum, Y)), n * K)
    between = sum(K * (mean - whole) ** 2 for mean in means) / (n - 1)
    within = sum((y - mean) ** 2 for row, mean in zip(Y, means, strict=True) for y in row) / (n * (K - 1))
    return (between - within) / (between + (K - 1) * within)


def pearson_rho(Y: Matrix) -> mp.mpf:
    """Return the mean of Pearson's correlation over pairs of paths that both vary."""
    n, columns = len(Y), list(zip(*Y, strict=True))

    def cov(a: Sequence[int], b: Sequence[int]) -> Fraction:
        return Fraction(sum(x * y for x, y in zip(a, b, strict=True)), n) - Fraction(sum(a) * sum(b), n * n)

    vary = [column for column in columns if cov(column, column)]
    found = [digits(cov(a, b)) / mp.sqrt(digits(cov(a, a) * cov(b, b))) for a, b in combinations(vary, 2)]
    return mp.fsum(found) / len(found)


def keff_block(Y: Matrix) -> Fraction | str:
    K = len(Y[0])
    size = 1 + (K - 1) * pooled_c_hat(Y)
    return K / size if size else "inf"


def c_from_rho_d(p: float, rho_d: float) -> mp.mpf:
    """Return the correlation of two normal scores' signs, by the integral of their density over rho."""
    accuracy = digits(exact(p))
    h = mp.sqrt(2) * mp.erfinv(2 * accuracy - 1)

    def density(r: mp.mpf) -> mp.mpf:
        return mp.exp(-h * h / (1 + r)) / (2 * mp.pi * mp.sqrt(1 - r * r))

    return mp.quad(density, [0, digits(exact(rho_d))]) / (accuracy * (1 - accuracy))


# Weights of generalised least squares.


def solved(matrix: Matrix, right: Sequence[Fraction]) -> list[Fraction]:
    """Return the solution of linear equations, by elimination."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    n = len(rows)
    for i in range(n):
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for j in range(n):
            if j != i:
                rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], rows[i], strict=True)]
    return [row[-1] for row in rows]


def gls_weights(Sigma: Matrix, g: Sequence[float]) -> list[Fraction]:
    raw = solved(exact(Sigma), exact(g))
    gain = sum(a * b for a, b in zip(raw, exact(g), strict=True))
    return [value / gain for value in raw]


def gls_risk(Sigma: Matrix, g: Sequence[float], D: int) -> Fraction:
    w, rows = gls_weights(Sigma, g), exact(Sigma)
    return D * sum(w[i] * w[j] * rows[i][j] for i in range(len(w)) for j in range(len(w)))


# Stopping rules.


def beats_half(first: int, second: int) -> Fraction:
    """Return the chance that the leader's share of the two is above one half, by a uniform prior."""
    n = first + second
    return Fraction(sum(comb(n + 1, k) for k in range(first + 1)), 2 ** (n + 1))


def log_e(first: int, second: int) -> mp.mpf:
    """Return the logarithm of the likelihood of shares above one half, uniform, over that of one half."""
    n = first + second
    beta = Fraction(factorial(first) * factorial(second), factorial(n + 1))
    return mp.log(digits(beta * beats_half(first, second) * 2 ** (n + 1)))


def stops(rule: str, votes: str, n: int) -> bool:
    """Say whether a rule stops after the first n votes."""
    name, _, rest = rule.partition(":")
    first, second, *_ = [*sorted(Counter(votes[:n]).values(), reverse=True), 0]
    if name == "adaptive_consistency":
        return beats_half(first, second) >= exact(rest.partition(",")[0])
    if name == "lead_k":
        return first - second >= int(rest.partition(",")[0])
    if name == "curtailed":
        cap = int(rest.removeprefix("cap="))
        return n == cap or first - second > cap - n
    window = int(rest.partition(",")[0])
    return n % window == 0 and len(set(votes[n - window : n])) == 1


def first_stop(rule: str, votes: str) -> list[Any] | None:
    """Return the number of votes at the first stop, and the answer that leads then (of equals the first)."""
    for n in range(1, len(votes) + 1):
        if stops(rule, votes, n):
            return [n, Counter(votes[:n]).most_common(1)[0][0]]
    return None


def confidence_share(votes: str, confidences: Sequence[float], temperature: float) -> list[Any]:
    """Return the answer of most weight and its share, weights being the softmax of confidence."""
    weights = [mp.exp(digits(exact(each)) / digits(exact(temperature))) for each in confidences]
    sums = {a: mp.fsum(w for v, w in zip(votes, weights, strict=True) if v == a) for a in sorted(set(votes))}
    best = max(sums, key=lambda answer: sums[answer])
    return [best, sums[best] / mp.fsum(weights)]


def esc_expected_paths(p: Sequence[float], window: int, cap: int) -> Fraction:
    """Return the paths drawn where each window of independent votes is unanimous by chance."""
    unanimous = sum(each**window for each in exact(p))
    return sum(
        (min(window, cap - n) * (1 - unanimous) ** (n // window) for n in range(0, cap, window)), Fraction(0)
    )


TABLES = (
    [[1, 1, 0, 1], [0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 1, 0], [1, 1, 1, 0], [1, 1, 1, 1]],
    [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]],  # one right path each: the least c there is
    [[1, 0, 1], [1, 1, 1], [1, 0, 0], [1, 1, 0], [1, 1, 1]],  # the first path does not vary
    [[1, 0], [1, 1], [0, 0], [0, 1], [1, 1], [0, 0], [1, 1], [0, 0]],
)
COVARIANCES = (
    ([[2, 0.5], [0.5, 1]], [1, 1]),
    ([[1, 0.25, 0.1], [0.25, 1.5, 0.3], [0.1, 0.3, 0.7]], [1, 0.8, 1.1]),
    ([[1, 0.6, 0.6], [0.6, 1, 0.6], [0.6, 0.6, 1]], [1, 1, 1]),
    ([[1, 0.9, 0.2, 0], [0.9, 1.2, 0.1, 0], [0.2, 0.1, 3, -0.4], [0, 0, -0.4, 0.5]], [0.9, 1, 1.3, 0.4]),
)
CLIP = [0.05, 0.99]


def sequences() -> Iterator[str]:
    """Yield sequences of votes: unanimous, close, late and of many answers."""
    yield from (
        "AAAAAA",
        "ABABABABABAAAAAA",
        "BBABBBBBBB",
        "ABCDEABCDEAAAAA",
        "AAABBBAAAAAAA",
        "ABCDEFGHIJKL",
    )
    rng = random.Random(4)
    for shares in ((6, 2, 1), (5, 4, 1), (3, 3, 3), (9, 1, 0)):
        yield "".join(rng.choices("ABC", shares, k=30))


def votes() -> Iterator[Case]:
    """Yield cases of what a vote is worth."""
    for K, c in ((4, 0.59), (32, 0.61), (8, 0), (8, 1), (6, -0.1), (1, 0.3)):
        yield keff_vote, {"K": K, "c": c}
    for rho in (0.5, 0, 1, -0.1):
        yield keff_rank, {"K": 6, "rho": rho}
    yield keff_rank_of_matrix, {"R": [[1, 0.4, 0.1], [0.4, 3, -0.2], [0.1, -0.2, 0.5]]}
    for K, c in ((1, 0.7), (5, 0.55), (12, 0.4), (3, 0)):
        yield marginal_gain, {"K": K, "c": c}
    # The points of the paper's table of K*; then gains that are eps exactly, where rounding adds a path.
    for c, eps in product((0.6, 0.53, 0.45, 0.61, 0.79, 0.33), (0.01, 0.025, 0.05, 0.1)):
        yield k_star, {"c": c, "eps": eps, "K_max": 32, "clip": CLIP}
    for c, eps in ((0.98, 0.02), (0.75, 0.01), (0.2, 0.05), (-0.3, 0.025), (0.999, 0.025), (0.5, 0.0001)):
        yield k_star, {"c": c, "eps": eps, "K_max": 32, "clip": CLIP}


def majorities() -> Iterator[Case]:
    """Yield cases of the laws of a majority, and of a plurality."""
    for K, p in ((7, 0.6), (8, 0.6), (32, 0.8), (32, 0.42), (151, 0.52)):
        yield binom_mv, {"K": K, "p": p}
    for K, p, c in (
        *((5, 0.77, 0.6), (6, 0.77, 0.6), (32, 0.77, 0.6), (32, 0.43, 0.5), (31, 0.95, 0.35), (16, 0.6, 0)),
        *((32, 0.7, 1), (8, 0.55, 1e-6), (8, 0.6, -0.05), (401, 0.51, 1e-10)),
    ):
        yield betabinom_mv, {"K": K, "p": p, "c": c}
    for K, p, c, j in ((32, 0.75, 0.55, 18), (600, 0.3, 1e-10, 180), (8, 0.5, 0.9, 0)):
        yield betabinom_logpmf, {"K": K, "p": p, "c": c, "j": j}
    for p, c in ((0.77, 0.6), (0.43, 0.5), (0.5, 0.2), (0.97, 0.3)):
        yield betabinom_mv_limit, {"p": p, "c": c}
    for p, M in ((0.5, 5), (0.3, 10), (0.7, 2), (0.1, 4)):
        yield multiclass_p, {"p": p, "M": M}
    for K, S, k in ((8, 5, 3), (8, 5, 4), (32, 19, 7), (32, 16, 9), (64, 35, 10), (8, 8, 4), (8, 0, 3)):
        yield hypergeom_mv, {"K": K, "S": S, "k": k}
    yield hypergeom_mv_mean, {"K": 4, "counts": [9, 2, 5, 7, 27], "k": 3}
    for counts, k in (([4, 2, 1, 2], 5), ([3, 3, 2], 4), ([10, 7, 4, 2, 1], 12), ([2, 5, 5], 6)):
        yield plurality_mv, {"counts": counts, "correct": 0, "k": k}


def tables() -> Iterator[Case]:
    """Yield cases of correlations and of weights."""
    for Y, of in product(TABLES, (pooled_c_hat, anova_icc, pearson_rho, keff_block)):
        yield of, {"Y": Y}
    for p, rho in ((0.5, 0.4), (0.8, 0.6), (0.95, 0.98), (0.9, 1e-8), (0.3, -0.4), (0.44, 0.85)):
        yield c_from_rho_d, {"p": p, "rho_d": rho}
    for Sigma, g in COVARIANCES:
        yield gls_weights, {"Sigma": Sigma, "g": g}
        yield gls_risk, {"Sigma": Sigma, "g": g, "D": 2}


def rules() -> Iterator[Case]:
    """Yield cases of stopping rules and of weighted votes."""
    for first, second in product((1, 2, 3, 5, 8, 13, 20), (0, 1, 3, 8, 12)):
        if second <= first:
            yield beats_half, {"first": first, "second": second}
            yield log_e, {"first": first, "second": second}
    for drawn in sequences():
        capped = f"curtailed:cap={len(drawn)}"
        for rule in ("adaptive_consistency:0.95,cap=64", "lead_k:3,cap=64", capped, "esc:5,cap=64"):
            yield first_stop, {"rule": rule, "votes": drawn}
    for temperature in (0.5, 1, 4):
        given = {"votes": "AABBBC", "confidences": [7, 6, 5, 5, 6, 8], "temperature": temperature}
        yield confidence_share, given
    for p, window, cap in (([0.8, 0.2], 5, 40), ([0.5, 0.3, 0.2], 4, 30), ([1], 5, 40)):
        yield esc_expected_paths, {"p": p, "window": window, "cap": cap}


def written(value: Any) -> Any:
    """Return a value for JSON: fractions and long numbers as the nearest float."""
    if isinstance(value, list):
        return [written(each) for each in value]
    return float(value) if isinstance(value, Fraction | mp.mpf) else value


def text() -> str:
    """Return every case with its value, a line each."""
    lines = [
        json.dumps({"function": of.__name__, "args": args, "value": written(of(**args))})
        for of, args in chain(votes(), majorities(), tables(), rules())
    ]
    return "[\n" + ",\n".join(lines) + "\n]\n"


if __name__ == "__main__":
    REFERENCE.write_text(text(), "utf-8")
