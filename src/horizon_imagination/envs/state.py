"""The complete state of an environment as plain data, for runs that resume bit for bit.

A layer of an environment (the world itself or a wrapper) takes part by having two methods,
`layer_state() -> dict | None` and `set_layer_state(state)`. The dicts hold JSON-able values and
numpy arrays only, so that nothing that is loaded can execute code.
"""

from typing import Any

import gymnasium
import numpy as np

from horizon_imagination.errors import UsageError

State = dict[str, Any]


def snapshot(env: gymnasium.Env) -> State | None:
    """Everything that decides how `env` goes on; none if one of its layers cannot tell."""
    layers = _layers(env)
    if not all(_can_tell(layer) for layer in layers):
        return None
    states = [layer.layer_state() for layer in layers]  # type: ignore[attr-defined]
    if any(state is None for state in states):
        return None
    kinds = [type(layer).__name__ for layer in layers]
    return {"layers": [{"kind": k, "state": s} for k, s in zip(kinds, states, strict=True)]}


def restore(env: gymnasium.Env, state: State) -> None:
    """Make `env`, built from the same config, go on exactly as the one `state` was taken from."""
    layers = _layers(env)
    expected = [type(layer).__name__ for layer in layers]
    found = [entry["kind"] for entry in state["layers"]]
    if found != expected or not all(_can_tell(layer) for layer in layers):
        raise UsageError(
            f"this state belongs to an environment made of {'/'.join(found)}, not of "
            f"{'/'.join(expected)}: restore it into one built from the same config"
        )
    for layer, entry in zip(layers, state["layers"], strict=True):
        layer.set_layer_state(entry["state"])  # type: ignore[attr-defined]


def rng_state(rng: np.random.Generator) -> State:
    """The state of a numpy generator; its numbers exceed 64 bits and are kept as text."""
    inner = rng.bit_generator.state
    return {
        "kind": inner["bit_generator"],
        "state": {name: str(value) for name, value in inner["state"].items()},
        "has_uint32": int(inner["has_uint32"]),
        "uinteger": int(inner["uinteger"]),
    }


def set_rng_state(rng: np.random.Generator, state: State) -> None:
    """The inverse of `rng_state`."""
    rng.bit_generator.state = {
        "bit_generator": state["kind"],
        "state": {name: int(value) for name, value in state["state"].items()},
        "has_uint32": state["has_uint32"],
        "uinteger": state["uinteger"],
    }


def _layers(env: gymnasium.Env) -> list[gymnasium.Env]:
    """The environment and what it wraps, from the outside in, without `transparent` wrappers."""
    layers = [env]
    while isinstance(layers[-1], gymnasium.Wrapper):
        layers.append(layers[-1].env)
    return [layer for layer in layers if not getattr(type(layer), "transparent", False)]


def _can_tell(layer: gymnasium.Env) -> bool:
    # asked of the class: a wrapper's instance passes unknown names on to what it wraps
    return hasattr(type(layer), "layer_state") and hasattr(type(layer), "set_layer_state")
