"""What decisions from pilots deliver on questions that they have not seen.

    python -m benchmarks.analysis.decision [--pilots 2] [--questions 50] [--paths 8]
        [--family "data set"|source] [--ablations]
    python -m benchmarks.analysis.decision --now 32 | --simulated

Pilots of min(N, n/2) questions of every recorded workload, judged on the other questions with all paths;
intervals are judged on as many other questions as the pilot has, for that is what they are of. The prices of
flips come from the other families, and of newer records from all to which constants were fitted.
``--ablations`` judges the same pilots without each constant. ``--now 32`` predicts from 8 paths of records
with 32, at the built-in prices; ``--simulated`` are workloads of known law.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np

from benchmarks.families import Record, newer_records, records
from keff.analysis.decision import decide
from keff.analysis.decision.aim import Aim
from keff.analysis.decision.chain import candidate_rules
from keff.analysis.decision.choose import COIN_FLIPS, choose, stated_gain
from keff.analysis.decision.outcomes import RuleOutcomes, replay_rules
from keff.analysis.decision.posterior import JointPosterior, posterior_of
from keff.analysis.decision.prior import GENERIC, Prior, generic_ratios
from keff.analysis.walks import expectations, run
from keff.policy import Policy, parse_policy
from keff.stats.votes import FloatArray, IntArray, Votes
from keff.stats.voting.draws import permute_paths

PATHS = 8
ASKED = (0.98, 0.99, 0.995, 0.999)
WRONG = 0.005
"""A verdict is wrong where voting gains, or loses, more than half a point."""
SURELY = 1.64
"""Standard errors of the truth by which a vote surely loses more than that."""

RULES, REFERENCE = candidate_rules(PATHS), parse_policy(f"fixed:{PATHS}")


@dataclass(frozen=True)
class Delivered:
    """What one pilot's decision did on the other questions; ``covered``: points, kept and paths.

    ``gain`` is the true gain of voting over one path, ``error`` its standard error, for the truth is known
    from a record only; ``allowed`` the loss that the aim allows.
    """

    name: str
    kept: float
    stated: float
    paths: float
    verdict: str
    gain: float
    error: float
    allowed: float
    covered: tuple[bool, bool, bool]


def by_question(votes: Votes, rules: Sequence[Policy], reference: Policy, seed: int = 5) -> RuleOutcomes:
    """Return what rules do on each question, also where questions of one pattern were replayed as one."""
    seen = replay_rules(votes, rules, reference, seed=seed)
    if seen.rows.pattern is None or seen.rows.counts is None:
        return seen
    names = ("paths", "flips", "plurality_lift", *(("loss", "right") if seen.loss is not None else ()))
    each = {name: getattr(seen, name)[seen.rows.pattern] for name in names}
    return replace(seen, rows=replace(seen.rows, counts=None), **each)


def of_one_model() -> list[Record]:
    """Return the records of eight paths or more that are repeated samples of one model."""
    return [record for record in records(PATHS) if "multimodel" not in record.name]


def fit(truth: dict[str, RuleOutcomes], families: dict[str, str], left_out: str | None) -> Prior:
    """Fit the prices of flips, as parts of the accuracy, to all families but one; each weighs the same."""
    ratios = generic_ratios((*RULES, REFERENCE))
    use = (ratios > 0.05) & (ratios < 0.3)  # rules that stop at a lead: where the line ends is seen there
    one: dict[str, list[float]] = defaultdict(list)
    deep: dict[str, list[float]] = defaultdict(list)
    for name, seen in truth.items():
        if families[name] == left_out or seen.loss is None or seen.right is None:
            continue
        scale, flips, loss = float(seen.right.mean()), seen.flips.mean(axis=0), seen.loss.mean(axis=0)
        if scale * len(seen.paths) < 10:
            continue
        price = loss / np.maximum(flips, 1e-9) / scale
        one[families[name]].append(float(price[0]))
        # On the line from one path down to no flip at all, each rule says where its foot is.
        foot = (price[use] - price[0] * ratios[use]) / (1 - ratios[use])
        deep[families[name]].append(float(np.average(foot, weights=flips[use])))
    means = np.array([np.mean(values) for values in one.values()])
    every = np.concatenate([np.asarray(values) for values in one.values()])
    level = float(np.mean([np.mean(values) for values in deep.values()]))
    return Prior(float(means.mean()), max(level, 0.0) * PATHS, float(every.std()))


def drawn(record: Record, questions: int, paths: int, seed: int) -> tuple[Votes, IntArray]:
    """Return a pilot and the questions that are not in it."""
    # Each record has splits of its own: records of one data set, split alike, would err alike.
    rng, votes = np.random.default_rng([seed, crc32(record.name.encode())]), record.votes
    order = rng.permutation(votes.n)
    chosen, others = np.split(order, [min(questions, votes.n // 2)])
    columns = rng.permuted(np.tile(np.arange(votes.k), (len(chosen), 1)), axis=1)[:, :paths]
    rows = votes.take(chosen)
    answers = np.take_along_axis(rows.answered(), columns, axis=1)
    return Votes(answers, np.take_along_axis(rows.scored(), columns, axis=1)), others


def judge(
    name: str, known: JointPosterior, truth: RuleOutcomes, others: IntArray, same: IntArray
) -> dict[float, Delivered]:
    """Return what the decision of a pilot delivers at each share asked, its intervals judged on ``same``."""
    assert truth.loss is not None and truth.right is not None
    assert known.level is not None and known.new.level is not None
    level, here = float(truth.right[others].mean()), float(truth.right[same].mean())
    loss, paths = truth.loss[others].mean(axis=0), truth.paths[others].mean(axis=0)
    new_loss, new_paths = truth.loss[same].mean(axis=0), truth.paths[same].mean(axis=0)
    out: dict[float, Delivered] = {}
    for asked in ASKED:
        choice = choose(known, Aim(retain=asked))
        rule = choice.rule
        lost = known.new.loss[:, rule]
        pairs = (
            (lost, float(new_loss[rule])),
            (1 - lost / np.maximum(known.new.level, 1e-9), 1 - float(new_loss[rule]) / max(here, 1e-9)),
            (known.new.paths[:, rule], float(new_paths[rule])),
        )
        covered = [
            bool(np.quantile(values, 0.025) - 1e-6 <= value <= np.quantile(values, 0.975) + 1e-6)
            for values, value in pairs
        ]
        out[asked] = Delivered(
            name,
            1 - float(loss[rule]) / level,
            min(1 - float(known.loss[rule]) / known.level, 1.0),
            float(paths[rule]),
            choice.verdict,
            float(truth.loss[:, 0].mean()),
            float(truth.loss[:, 0].std() / len(truth.loss) ** 0.5),
            (1 - asked) * level,
            (covered[0], covered[1], covered[2]),
        )
    return out


def outcomes(pilot: Votes, paths: int) -> tuple[RuleOutcomes, FloatArray]:
    """Return what the rules do on a pilot, against its own number of paths, and their generic flips."""
    rules, reference = candidate_rules(paths), parse_policy(f"fixed:{paths}")
    seen = replay_rules(pilot, rules, reference)
    return seen, generic_ratios((*rules, reference))


def posterior(pilot: Votes, paths: int, prior: Prior) -> JointPosterior:
    """Return the joint posterior of a pilot against its own number of paths."""
    seen, ratios = outcomes(pilot, paths)
    return posterior_of(seen, ratios, paths, prior)


def ablations(
    seen: RuleOutcomes, ratios: FloatArray, paths: int, prior: Prior
) -> Iterator[tuple[str, JointPosterior]]:
    """Yield the posterior of a pilot without each constant, by what was left out."""
    for name, changed in {
        "no wide part of the prior": replace(prior, wide_weight=0.0),
        "no pseudo-questions": replace(prior, pseudo_questions=0),
        "no least variance": replace(prior, least_variance=0.0),
        "no imagined clusters": replace(prior, imagined=0.0),
        "one price for all rules": replace(prior, deep=prior.one_path * paths),
        "no measured loss": replace(prior, least_variance=1e9),
        "no prior": replace(prior, sd=1e3),
    }.items():
        yield name, posterior_of(seen, ratios, paths, changed)
    whole = posterior_of(seen, ratios, paths, prior)
    shown = whole.z_vote
    assert shown is not None
    coins = min(float(whole.population.flips[:, whole.single].mean()) / COIN_FLIPS, 1.0)
    # As if evidence were asked for without regard to the flips, and not at all.
    yield "no COIN_FLIPS", replace(whole, z_vote=shown * coins)
    yield "no LEAST_Z_OF_VOTE", replace(whole, z_vote=np.inf)
    yield "no measured gain asked for", replace(whole, measured=np.ones_like(whole.measured))


HEADER = (
    "| asked | kept | stated | paths | worst 10% | undecided | wrong vote (surely), once (beyond the aim) "
    "| lost by votes, points | covers points, kept, paths |"
)


def table(found: dict[str, list[Delivered]]) -> None:
    """Print one row for each share asked, or each ablation."""
    print(f"{HEADER}\n|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for asked, rows in found.items():
        by_name: dict[str, list[float]] = defaultdict(list)
        for row in rows:
            by_name[row.name].append(row.kept)
        kept = np.array([np.mean(values) for values in by_name.values()])
        loss = np.array([-row.gain if row.verdict == "vote" else 0.0 for row in rows])
        surely = np.mean(loss - SURELY * np.array([row.error for row in rows]) > WRONG)
        over = np.array([row.gain if row.verdict == "ask once" else 0.0 for row in rows])
        once, beyond = np.mean(over > WRONG), np.mean(over > WRONG + np.array([r.allowed for r in rows]))
        lost, wrong = 100 * np.maximum(loss, 0).mean(), np.mean(loss > WRONG)
        cover = ", ".join(f"{100 * np.mean([row.covered[place] for row in rows]):.0f}" for place in range(3))
        print(
            f"| {asked} | {100 * kept.mean():.2f}% | {100 * np.mean([row.stated for row in rows]):.2f}% | "
            f"{np.mean([row.paths for row in rows]):.2f} | {100 * np.quantile(kept, 0.1):.1f}% | "
            f"{np.mean([row.verdict == 'undecided' for row in rows]):.0%} | {wrong:.1%} ({surely:.1%}), "
            f"{once:.1%} ({beyond:.1%}) | {lost:.3f} | {cover}% |"
        )


def one_for_all(
    truth: dict[str, RuleOutcomes], families: dict[str, str], paths: float
) -> tuple[float, float]:
    """Return what one rule for everybody keeps and draws, chosen for each family on the others.

    It is the one that keeps most there with at most ``paths`` on average.
    """
    kept = np.array([1 - _means(each.loss) / _means(each.right) for each in truth.values()])
    drawn = np.array([_means(each.paths) for each in truth.values()])
    of, found = np.array([families[name] for name in truth]), list[FloatArray]()
    for family in of.tolist():
        others = of != family
        fits = drawn[others].mean(axis=0) <= paths + 1e-9
        best = int(np.argmax(np.where(fits, kept[others].mean(axis=0), -np.inf)))
        found.append(np.array([kept[~others, best].mean(), drawn[~others, best].mean()]))
    share, most = np.mean(found, axis=0)
    return float(share), float(most)


def _means(values: FloatArray | None) -> FloatArray:
    assert values is not None
    return np.asarray(values.mean(axis=0))


def recorded(sources: list[Record], newer: list[Record], asked: argparse.Namespace) -> None:
    """Judge pilots of all records, their families left out."""
    rules, reference = candidate_rules(asked.paths), parse_policy(f"fixed:{asked.paths}")
    families = {each.name: each.family(asked.family) for each in (*sources, *newer)}

    def played(by: int, of: list[Record]) -> dict[str, RuleOutcomes]:
        own, today = (rules, reference) if by == asked.paths else (RULES, REFERENCE)
        return {each.name: by_question(each.votes, own, today) for each in of}

    truth = played(asked.paths, sources)
    fitted = truth if asked.paths == PATHS else played(PATHS, sources)
    prices = {family: fit(fitted, families, family) for family in set(families.values())}
    size = f"{asked.questions} questions x {asked.paths} paths"
    for name, some, known in (
        ("records", sources, truth),
        ("newer records", newer, played(asked.paths, newer)),
    ):
        print(f"\n{len(some)} {name}, {asked.pilots} pilots of {size}, left out by {asked.family}\n")
        pilots = [(record, seed) for record in some for seed in range(asked.pilots)]
        found: dict[str, list[Delivered]] = defaultdict(list)
        without: dict[str, list[Delivered]] = defaultdict(list)
        for record, seed in pilots:
            pilot, others = drawn(record, asked.questions, asked.paths, seed)
            prior, same = prices[families[record.name]], others[: pilot.n]
            seen, ratios = outcomes(pilot, asked.paths)
            told = judge(
                record.name,
                posterior_of(seen, ratios, asked.paths, prior),
                known[record.name],
                others,
                same,
            )
            for share, row in told.items():
                found[f"{share:g}"].append(row)
            for left_out, changed in ablations(seen, ratios, asked.paths, prior) if asked.ablations else ():
                told = judge(record.name, changed, known[record.name], others, same)
                for share in ABLATED:
                    without[f"{share:g}, {left_out}"].append(told[share])
        table(found)
        if without:
            print()
            table(dict(sorted(without.items())))
        if some is sources:
            against_one_for_all(found, truth, families)


ABLATED = (0.99, 0.999)
"""Shares at which ablations are judged: the default, and the one at which rare flips matter."""


def against_one_for_all(
    found: dict[str, list[Delivered]], truth: dict[str, RuleOutcomes], families: dict[str, str]
) -> None:
    """Print what one rule for everybody does beside the decisions, and the claim."""
    for share, rows in found.items():
        paths, kept = (np.mean([getattr(row, name) for row in rows]) for name in ("paths", "kept"))
        other, most = one_for_all(truth, families, float(paths))
        beside = f"one rule for everybody: {other:.2%} at {most:.2f}"
        print(f"\n{share}: {kept:.2%} at {paths:.2f} paths; {beside}")
    kept, paths = (np.mean([getattr(row, name) for row in found["0.99"]]) for name in ("kept", "paths"))
    print(f"\nclaim: kept where 99% of {PATHS} paths is asked | {kept:.2%} at {paths:.2f} paths | 99% at 3.6")


def ahead(sources: list[Record], now: int, pilots: int, questions: int) -> None:
    """Judge decisions against more paths than the pilot holds."""
    print("| asked | kept | stated | paths | covers points |\n|---|--:|--:|--:|--:|")
    full = parse_policy(f"fixed:{now}")
    sources = [each for each in sources if each.votes.k >= now]
    for asked in ASKED:
        rows: list[tuple[float, float, float, bool]] = []
        for record in sources:
            orders = max(20_000 // record.votes.n, 20)
            draws = permute_paths(record.votes, now, orders, np.random.default_rng(5))
            today = expectations(run(full, draws), draws, now).accuracy
            for seed in range(pilots):
                pilot, others = drawn(record, questions, PATHS, seed)
                told = decide(pilot, Aim(retain=asked), now=str(now)).decision
                mine = expectations(run(parse_policy(told.policy), draws), draws, now)
                points = told.change.points
                assert told.kept is not None and mine.accuracy is not None and today is not None
                assert points is not None and points.limits is not None
                apart = float((mine.accuracy - today)[others[: pilot.n]].mean())
                kept = float(mine.accuracy[others].mean() / today[others].mean())
                inside = points.limits[0] - 1e-6 <= apart <= points.limits[1] + 1e-6
                rows.append((kept, told.kept.value, float(mine.paths[others].mean()), inside))
        kept, stated, paths, covered = np.array(rows, np.float64).mean(axis=0)
        print(f"| {asked:g} | {kept:.2%} | {stated:.2%} | {paths:.2f} | {covered:.0%} |")
    print(
        f"\n{len(sources)} records of {now} paths or more, {pilots} pilots of {questions} x {PATHS}, "
        f"against {now}"
    )


LAWS: dict[str, tuple[tuple[float, tuple[float, ...]], ...]] = {
    "60% right .85, 40% right .40 (rival .60)": ((0.6, (0.85, 0.1)), (0.4, (0.40, 0.60))),
    "right .40, rival .44": ((1.0, (0.40, 0.44)),),
    "right .35, rival .60": ((1.0, (0.35, 0.60)),),
    "fair coins": ((1.0, (0.5, 0.5)),),
    "gold aliases: right .35 + .30, rival .20": ((1.0, (0.35, 0.20, 0.30)),),
}
"""Shares of the questions with the chances of their answers: right, rival, a second right one for aliases."""


def simulated(law: str, n: int, k: int, seed: int) -> Votes:
    """Draw votes of a law; what its answers leave is spread over answers of their own."""
    rng = np.random.default_rng([seed, n, len(law)])
    parts = LAWS[law]
    kind = rng.choice(len(parts), n, p=[share for share, _ in parts])
    width = max(len(chances) for _, chances in parts)
    edges = np.array([np.pad(np.cumsum(c), (0, width - len(c)), mode="edge") for _, c in parts])[kind]
    answers = (rng.random((n, k, 1)) > edges[:, None, :]).sum(axis=2)
    rest = answers == width
    answers[rest] += rng.integers(0, 6, rest.sum())
    right = (answers == 0) | ((answers == 2) if "aliases" in law else False)
    return Votes(answers, right.astype(int))


def copies(votes: Votes, times: int) -> Votes:
    """Return votes in which every question stands so many times, copies in one cluster."""
    rows = np.repeat(np.arange(votes.n // times), times)
    few = votes.take(rows)
    return Votes(few.answers, few.correct, clusters=rows)


def true_losses(law: str) -> FloatArray:
    """Return the loss of each rule [C] on many questions of a law, to a twentieth of a point."""
    votes, losses = simulated(law, 400_000, PATHS, 99), []
    for seed in range(20):
        seen = replay_rules(votes, RULES, REFERENCE, seed=seed)
        assert seen.loss is not None
        losses.append(seen.rows.means(seen.loss))
    return np.mean(losses, axis=0)


def known_laws(pilots: int) -> None:
    """Judge verdicts and intervals where the truth is known."""
    print("| workload | n | true gain of voting | vote, ask once, undecided | covers gain, points |")
    print("|---|--:|--:|--:|--:|")
    for law in (*LAWS, "copies, 5 of each: 60% right .85, 40% right .40 (rival .60)"):
        base = law.rsplit(": ", 1)[-1] if law.startswith("copies") else law
        true = true_losses(base)
        for n in (50, 200, 500):
            verdicts, inside = defaultdict[str, int](int), np.zeros(2)
            for seed in range(pilots):
                votes = simulated(base, n, PATHS, seed)
                new = simulated(base, n, PATHS, 1000 + seed)
                if law.startswith("copies"):
                    votes, new = copies(votes, 5), copies(new, 5)
                known = posterior(votes, PATHS, GENERIC)
                choice = choose(known, Aim())
                verdicts[choice.verdict] += 1
                later = replay_rules(new, RULES, REFERENCE, seed=1)
                assert later.loss is not None
                lost = later.rows.means(later.loss)
                gain = stated_gain(known, choice)
                voting = choice.rule if choice.rule != known.single else len(true) - 1
                assert gain.limits is not None
                points = tuple(np.quantile(known.new.loss[:, choice.rule], [0.025, 0.975]))
                pairs = (gain.limits, true[0] - true[voting]), (points, lost[choice.rule])
                inside += [low - 1e-6 <= truth <= high + 1e-6 for (low, high), truth in pairs]
            said = ", ".join(f"{verdicts[word] / pilots:.0%}" for word in ("vote", "ask once", "undecided"))
            cover = ", ".join(f"{share:.0%}" for share in inside / pilots)
            print(f"| {law} | {n} | {100 * true[0]:+.1f} | {said} | {cover} |")


def main() -> None:
    """Judge pilots of all records, or of known laws."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pilots", type=int, default=2)
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--paths", type=int, default=PATHS)
    parser.add_argument("--family", default="data set")
    parser.add_argument("--now", type=int)
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--ablations", action="store_true")
    asked = parser.parse_args()
    if asked.simulated:
        known_laws(asked.pilots)
        return
    sources = of_one_model()
    if not sources:
        print("skipped: the recorded generations are not here")
    elif asked.now is not None:
        ahead(sources, asked.now, asked.pilots, asked.questions)
    else:
        recorded(sources, newer_records(PATHS), asked)


if __name__ == "__main__":
    main()
