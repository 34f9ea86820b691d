"""The comparisons of the paper, ready to start, and small ones on the embedded worlds."""

from horizon_imagination.scale.suite import Setting, Suite, World

ATARI = tuple(
    World(f"ALE/{game}-v5") for game in ("Boxing", "CrazyClimber", "Gopher", "KungFuMaster")
)
CRAFTIUM = (
    World("Craftium/SmallRoom-v0", override={"training.epochs": 150}),
    World("Craftium/Room-v0"),
    World("Craftium/Speleo-v0"),
    World("Craftium/ChopTree-v0"),
)
"""SmallRoom was trained for 30 000 steps, the others for 100 000."""
FOG = (
    World(
        "small-fog",
        "small-fog",
        {"training.target_return": None, "training.epochs": 42, "training.evaluate_every": 4},
    ),
)
"""Without an early end: settings are compared at the same number of steps."""


def schedule(name: str, budget: int, decay_horizon: float, **more: object) -> Setting:
    """A setting of the sampling schedule, and further fields of imagination."""
    fields = {"budget": budget, "decay_horizon": decay_horizon, **more}
    return Setting(name, {f"imagination.{key}": value for key, value in fields.items()})


def samplers(budget: int, decay_horizon: float, **more: object) -> tuple[Setting, ...]:
    """Stable actions, and what they are compared with, on one schedule."""
    schedule_name = f"{decay_horizon:.0f}-{budget}"

    def setting(name: str, **own: object) -> Setting:
        return schedule(f"{name}-{schedule_name}", budget, decay_horizon, **more, **own)

    return (
        setting("hi", sampler="stable"),
        setting("naive", sampler="naive", engine="plain"),
        setting("naive-held", sampler="naive_held"),
        setting("coupled", sampler="coupled"),
    )


CONTROL = (
    schedule("ar", 32, 1.0),
    schedule("hi-4-16", 16, 4.0),
    schedule("hi-4-32", 32, 4.0),
)
CONTROL_DEMO = (
    schedule("ar", 6, 1.0),
    schedule("hi-2-3", 3, 2.0),
    schedule("hi-2-6", 6, 2.0),
)
FIVE, THREE = tuple(range(5)), tuple(range(3))

BUILT_IN: dict[str, tuple[str, Suite]] = {
    suite.name: (text, suite)
    for text, suite in (
        (
            "the paper's comparison: ar, hi-4-16, hi-4-32; 8 worlds, 5 seeds",
            Suite("control", ATARI + CRAFTIUM, CONTROL, FIVE),
        ),
        (
            "the same on the four Atari games",
            Suite("control-atari", ATARI, CONTROL, FIVE),
        ),
        (
            "the same on the four Craftium worlds",
            Suite("control-craftium", CRAFTIUM, CONTROL, FIVE),
        ),
        (
            "stable, naive (literal and held) and coupled actions; 8 worlds, 5 seeds",
            Suite("ablation", ATARI + CRAFTIUM, samplers(16, 4.0), FIVE),
        ),
        (
            "the same on the four Atari games",
            Suite("ablation-atari", ATARI, samplers(16, 4.0), FIVE),
        ),
        (
            "the same on the four Craftium worlds",
            Suite("ablation-craftium", CRAFTIUM, samplers(16, 4.0), FIVE),
        ),
        (
            "ar, hi-2-3 and hi-2-6 on small-fog, 3 seeds, on two CPU cores",
            Suite("control-demo", FOG, CONTROL_DEMO, THREE),
        ),
        (
            "stable, naive, naive held and coupled actions on small-fog, 3 seeds, two CPU cores",
            Suite("ablation-demo", FOG, samplers(3, 2.0), THREE),
        ),
    )
}
"""Name -> (one line, the suite)."""
