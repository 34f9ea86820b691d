"""The paper's claims about generation quality, one by one, and what a study says of each."""

from collections.abc import Callable
from dataclasses import dataclass

from horizon_imagination.metrics.statistics import Interval
from horizon_imagination.studies.quality_estimates import Results, mean_of
from horizon_imagination.studies.quality_points import Point

HOLDS, PART, FAILS, OPEN, NONE = (
    "holds", "holds in part", "does not hold", "undecided", "no data"
)  # fmt: skip
COMPARABLE = 1.1
"""Up to this many times the distance of another counts as comparable."""
COLLAPSE = 1.5
"""From this many times the distance on, a loss of quality counts as a collapse."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, a verdict, and the numbers behind it."""

    text: str
    verdict: str
    numbers: list[str]


def claims(results: Results, reference: str) -> list[Claim]:
    """All claims, judged by distances to one reference."""
    judges: list[Callable[[Results, str], Claim]] = [
        parallel_at_low_budgets,
        sub_frame_budgets,
        autoregressive_at_high_budgets,
        error_against_distance,
        pyramidal_collapse,
    ]
    return [judge(results, reference) for judge in judges]


def parallel_at_low_budgets(results: Results, reference: str) -> Claim:
    """Mean distance of decay horizons 4 to 16 against the autoregressive one, by budget."""
    text = (
        "parallel configurations (decay horizon 4 to 16) have a clear advantage under low to "
        "medium budgets"
    )
    numbers, found = [], []
    for budget in _budgets(results):
        one, band = _autoregressive(results, budget), _parallel(results, budget)
        if budget >= 4 * results.horizon or one is None or not band or not results.has_fvd:
            continue
        mine = mean_of([results.fvd(point, reference) for point in band])
        difference = (mine - results.fvd(one, reference)).interval()
        found.append(difference)
        numbers.append(
            f"budget {budget}: mean FVD {mine.value:.4g} at decay "
            f"{_list([p.decay_horizon for p in band])}, {results.fvd(one, reference).value:.4g} "
            f"at decay 1; difference {_show(difference)}"
        )
    return Claim(text, _verdict(found), numbers)


def sub_frame_budgets(results: Results, reference: str) -> Claim:
    """The best parallel point of a sub-frame budget against sixteen times the budget."""
    text = (
        "in several cases parallel variants with sub-frame budgets are comparable to baselines "
        f"with 16 times the budget (comparable: at most {COMPARABLE:g} times the FVD)"
    )
    numbers, found = [], []
    for budget in _budgets(results):
        one, band = _autoregressive(results, 16 * budget), _parallel(results, budget)
        if budget >= results.horizon or one is None or not band or not results.has_fvd:
            continue
        best = min(band, key=lambda point: results.fvd(point, reference).value)
        mine, theirs = results.fvd(best, reference), results.fvd(one, reference)
        found.append((mine - theirs * COMPARABLE).interval())
        numbers.append(
            f"{best.name}: FVD {mine.value:.4g}; {one.name}: {theirs.value:.4g}; difference "
            f"{_show((mine - theirs).interval())}"
        )
    several = HOLDS if any(x.high <= 0 for x in found) else _verdict(found)
    return Claim(text, several, numbers)


def autoregressive_at_high_budgets(results: Results, reference: str) -> Claim:
    """The rank of decay horizon 1 at budgets from four steps a frame on (128 for 32 frames)."""
    text = f"at budgets of {4 * results.horizon} and more the autoregressive baseline ranks first"
    numbers, found = [], []
    for budget in _budgets(results):
        points = [p for p in results.points("horizon") if p.budget == budget]
        one = _autoregressive(results, budget)
        if budget < 4 * results.horizon or one is None or len(points) < 2 or not results.has_fvd:
            continue
        ranked = sorted(points, key=lambda point: results.fvd(point, reference).value)
        rival = next(point for point in ranked if point != one)
        difference = results.fvd(one, reference) - results.fvd(rival, reference)
        found.append(difference.interval())
        order = ", ".join(
            f"decay {p.decay_horizon:g} {results.fvd(p, reference).value:.4g}" for p in ranked
        )
        numbers.append(
            f"budget {budget}: rank {ranked.index(one) + 1} of {len(ranked)} ({order}); "
            f"difference to the best other one {_show(difference.interval())}"
        )
    return Claim(text, _verdict(found), numbers)


def error_against_distance(results: Results, reference: str) -> Claim:
    """From the budget of the least MSE to the largest: does the MSE rise while the FVD falls?"""
    text = (
        "more budget may drift further from the truth (MSE rises) while quality improves (FVD "
        "falls)"
    )
    numbers, both, neither, budgets = [], 0, 0, _budgets(results)
    decays = sorted({point.decay_horizon for point in results.points("horizon")})
    for decay in decays if len(budgets) > 1 and results.has_fvd else []:
        known = [p for p in results.points("horizon") if p.decay_horizon == decay]
        first, last = min(known, key=lambda p: results.mse(p, reference).value), known[-1]
        if last.budget != budgets[-1]:
            continue
        if first == last:
            neither += 1
            numbers.append(f"decay {decay:g}: least MSE at the largest budget, {last.budget}")
            continue
        error = (results.mse(last, reference) - results.mse(first, reference)).interval()
        distance = (results.fvd(last, reference) - results.fvd(first, reference)).interval()
        both += error.low > 0 and distance.high < 0
        neither += error.high < 0 or distance.low > 0
        numbers.append(
            f"decay {decay:g}, budget {first.budget} to {last.budget}: MSE {_show(error)}, FVD "
            f"{_show(distance)}"
        )
    if not numbers:
        return Claim(text, NONE, [])
    if both:
        return Claim(text, HOLDS if both == len(numbers) else PART, numbers)
    return Claim(text, FAILS if neither == len(numbers) else OPEN, numbers)


def pyramidal_collapse(results: Results, reference: str) -> Claim:
    """The distance of the Pyramidal schedule at its largest budget against its smallest."""
    text = (
        "the Pyramidal schedule collapses as the budget grows "
        f"(collapse: at least {COLLAPSE:g} times the FVD of its smallest budget)"
    )
    points = results.points("pyramidal")
    if len(points) < 2 or not results.has_fvd:
        return Claim(text, NONE, [])
    first, last = results.fvd(points[0], reference), results.fvd(points[-1], reference)
    rise = (last - first).interval()
    numbers = [f"budget {p.budget}: FVD {results.fvd(p, reference).value:.4g}" for p in points]
    numbers.append(f"from budget {points[0].budget} to {points[-1].budget}: {_show(rise)}")
    same = [p for p in results.points("horizon") if p.budget == points[-1].budget]
    if same:
        best = min(same, key=lambda point: results.fvd(point, reference).value)
        numbers.append(f"{best.name}: FVD {results.fvd(best, reference).value:.4g}")
    if rise.low > 0:
        return Claim(text, HOLDS if last.value >= COLLAPSE * first.value else PART, numbers)
    return Claim(text, FAILS if rise.high < 0 else OPEN, numbers)


def _verdict(differences: list[Interval]) -> str:
    """Whether differences that the claim says are negative are so, beyond their intervals."""
    if not differences:
        return NONE
    below = sum(x.high < 0 for x in differences)
    above = sum(x.low > 0 for x in differences)
    if below == len(differences):
        return HOLDS
    if below:
        return PART
    return FAILS if above else OPEN


def _budgets(results: Results) -> list[int]:
    return sorted({point.budget for point in results.points("horizon")})


def _autoregressive(results: Results, budget: int) -> Point | None:
    point = Point("horizon", budget, 1.0)
    return point if point in results.lines else None


def _parallel(results: Results, budget: int) -> list[Point]:
    return [
        point
        for point in results.points("horizon")
        if point.budget == budget and 4 <= point.decay_horizon <= 16
    ]


def _show(interval: Interval) -> str:
    if interval.low == interval.high:
        return f"{interval.estimate:+.4g}"
    return f"{interval.estimate:+.4g} [{interval.low:+.4g}, {interval.high:+.4g}]"


def _list(values: list[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
