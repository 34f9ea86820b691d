"""`horizon presets`: the named configurations."""

import json
from dataclasses import dataclass

from horizon_imagination.cli.parse import parse
from horizon_imagination.presets import PRESETS


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """List the presets, or print one in full."""

    show: str | None = None
    """Print every field of this preset as JSON."""


def main(argv: list[str]) -> int | None:
    """One line per preset."""
    args = parse(Arguments, argv, prog="horizon presets")
    if args.show is not None:
        from horizon_imagination.cli.train import preset
        from horizon_imagination.config_json import to_json

        print(json.dumps(to_json(preset(args.show)), indent=1))
        return 0
    width = max(map(len, PRESETS))
    for name, (summary, config) in PRESETS.items():
        print(f"{name:<{width}}  {config.env.id:<14} {summary}")
    return 0
