"""The paper's claims about control, one by one, and what the runs at hand say of each."""

from dataclasses import dataclass, replace

import numpy as np

from horizon_imagination.envs.known import reference_scores
from horizon_imagination.errors import UsageError
from horizon_imagination.metrics.statistics import (
    FEWEST,
    Interval,
    difference_interval,
    human_normalized,
    improvement_interval,
    interquartile_mean,
    mean,
)
from horizon_imagination.report.suite import SuiteResults
from horizon_imagination.wording import signed

CHOP, BOXING, GOPHER = "Craftium/ChopTree-v0", "ALE/Boxing-v5", "ALE/Gopher-v5"


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, a verdict, and the numbers behind it."""

    text: str
    verdict: str
    """supported, not contradicted, contradicted, too few runs, or no data."""
    numbers: str


@dataclass(frozen=True)
class Comparison:
    """Setting a against setting b over the worlds in which both have runs."""

    a: str
    b: str
    envs: list[str]
    steps: list[int]
    """At which both are compared, by world: the latest that most of their runs have reached."""
    runs: int
    """Of the setting and world that has the fewest."""
    difference: Interval
    """Of the interquartile means, in units of `unit`."""
    improvement: Interval
    """Probability that a run of a beats one of b."""
    unit: str


def compare(
    suite: SuiteResults, a: str, b: str, envs: list[str] | None = None, *, resamples: int = 2000
) -> Comparison | None:
    """Compare final scores, or none where the two settings share no world with scores.

    One world is compared in its own returns; several in scores scaled to a common measure.
    """
    shared = [
        env
        for env in (suite.envs() if envs is None else envs)
        if suite.scores(env, a) and suite.scores(env, b)
    ]
    if not shared:
        return None
    alone = len(shared) == 1
    steps = [suite.common_step(env, [a, b]) for env in shared]
    strata = [
        [_scaled(suite, env, setting, step, alone) for env, step in zip(shared, steps, strict=True)]
        for setting in (a, b)
    ]
    return Comparison(
        a,
        b,
        shared,
        steps,
        min(len(task) for setting in strata for task in setting),
        difference_interval(*strata, statistic=interquartile_mean, resamples=resamples),
        improvement_interval(*strata, resamples=resamples),
        "return" if alone else "scaled score",
    )


def claims(suite: SuiteResults, *, resamples: int = 2000) -> list[Claim]:
    """Every claim of the control comparison and its ablation."""
    return [
        _half_budget(suite, resamples),
        _chop(suite, resamples),
        _collapse(suite, BOXING, resamples),
        _collapse(suite, GOPHER, resamples),
        _hours(suite),
    ]


def naive_label(suite: SuiteResults, env: str) -> str | None:
    """The ablation's runs where there are any: those behind its figure first."""
    labels = [c for c in suite.settings(env) if "naive" in c and suite.scores(env, c)]
    return next((c for c in labels if c.startswith("ablation")), labels[0] if labels else None)


def told(comparison: Comparison) -> str:
    """The numbers of a comparison in a sentence; intervals only where there are runs enough."""
    d, p = comparison.difference, comparison.improvement
    worlds = comparison.envs[0] if len(comparison.envs) == 1 else f"{len(comparison.envs)} worlds"
    low, high = min(comparison.steps), max(comparison.steps)
    steps = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    enough = comparison.runs >= FEWEST
    difference = f" (95 %: {signed(d.low)} to {signed(d.high)})" if enough else ""
    improvement = f" ({p.low:.2f} to {p.high:.2f})" if enough else ""
    return (
        f"{comparison.a} over {comparison.b} on {worlds} at {steps} steps: "
        f"{signed(d.estimate)} {comparison.unit}{difference}, "
        f"probability of improvement {p.estimate:.2f}{improvement}"
    )


def _half_budget(suite: SuiteResults, resamples: int) -> Claim:
    text = "Half the denoising budget (hi-4-16) keeps the return of the autoregressive one (ar)."
    found = compare(suite, "hi-4-16", "ar", resamples=resamples)
    if found is None:
        return _no_data(text, "hi-4-16 and ar in a common world")
    # A loss is what the claim denies: only an interval below zero speaks against it.
    if found.difference.high < 0:
        verdict = "contradicted"
    else:
        verdict = "supported" if found.difference.low >= 0 else "not contradicted"
    judged = _judged(text, verdict, [found])
    each = [compare(suite, "hi-4-16", "ar", [env], resamples=resamples) for env in found.envs]
    below = [one.envs[0] for one in each if one and one.runs >= FEWEST and one.difference.high < 0]
    if not below or len(each) == 1:
        return judged
    return replace(judged, numbers=f"{judged.numbers}; below ar on {', '.join(below)}")


def _chop(suite: SuiteResults, resamples: int) -> Claim:
    text = "On ChopTree, the most complex world, hi-4-32 is best."
    found = [
        compare(suite, "hi-4-32", other, [CHOP], resamples=resamples) for other in ("ar", "hi-4-16")
    ]
    if None in found:
        return _no_data(text, f"ar, hi-4-16 and hi-4-32 on {CHOP}")
    return _above(text, [comparison for comparison in found if comparison])


def _collapse(suite: SuiteResults, env: str, resamples: int) -> Claim:
    text = f"Naive action sampling collapses on {env}."
    naive = naive_label(suite, env)
    found = compare(suite, "hi-4-16", naive, [env], resamples=resamples) if naive else None
    return _above(text, [found]) if found else _no_data(text, f"hi-4-16 and naive runs on {env}")


def _hours(suite: SuiteResults) -> Claim:
    text = "A run takes 27 hours with a budget of 32 and 19 with 16 (ratio 1.42)."
    hours: dict[str, float] = {}
    for setting in ("ar", "hi-4-32", "hi-4-16"):
        spent = [
            r.seconds / max(r.steps, 1) for r in suite.runs if r.setting == setting and r.seconds
        ]
        if spent:
            hours[setting] = float(np.mean(spent)) / 3600 * 100_000
    if "hi-4-16" not in hours or len(hours) < 2:
        return _no_data(text, "wall times of hi-4-16 and of a budget of 32")
    ratios = [
        f"{name} / hi-4-16 {value / hours['hi-4-16']:.2f}"
        for name, value in hours.items()
        if name != "hi-4-16"
    ]
    each = ", ".join(f"{name} {value:.3g} h" for name, value in hours.items())
    slower = min(v for name, v in hours.items() if name != "hi-4-16") > hours["hi-4-16"]
    numbers = f"per 100 000 steps: {each}; {', '.join(ratios)}"
    return Claim(text, "supported" if slower else "contradicted", numbers)


def _above(text: str, found: list[Comparison]) -> Claim:
    """A claim that the first setting is better in every comparison."""
    if all(comparison.difference.low > 0 for comparison in found):
        return _judged(text, "supported", found)
    if any(comparison.difference.high < 0 for comparison in found):
        return _judged(text, "contradicted", found)
    return _judged(text, "not contradicted", found)


def _judged(text: str, verdict: str, found: list[Comparison]) -> Claim:
    """The verdict, unless there are too few runs for one."""
    enough = all(comparison.runs >= FEWEST for comparison in found)
    numbers = "; ".join(told(comparison) for comparison in found)
    return Claim(text, verdict if enough else "too few runs", numbers)


def _no_data(text: str, missing: str) -> Claim:
    return Claim(text, "no data", f"needs {missing}")


def _scaled(suite: SuiteResults, env: str, setting: str, step: int, alone: bool) -> list[float]:
    """Scores at a step; where worlds are mixed on a common measure.

    That is 0 for random and 1 for human or best; without these, the share of the largest mean.
    """
    scores = list(suite.scores(env, setting, step).values())
    if alone:
        return scores
    known = reference_scores(env)
    if "best" in known:
        low, high = known["random"], known["best"]
        return [(score - low) / (high - low) for score in scores]
    try:
        return [human_normalized(env, score) for score in scores]
    except UsageError:
        of_setting = [list(suite.scores(env, c).values()) for c in suite.settings(env)]
        largest = max(abs(mean(found)) for found in of_setting if found)
        return [score / largest if largest else score for score in scores]
