"""Documents made from the schemas of the files, for property-based tests (hypothesis).

`documents(KIND)` is every JSON value that fits a dataclass; ranges that its own code checks are in
`RANGES`. `changed(DOCUMENT)` is the same document with one field replaced by any JSON value, taken
away, or added.
"""

import collections.abc
import dataclasses
import types
import typing
from typing import Any

from hypothesis import strategies as st

from horizon_imagination.action_json import MOST_ACTIONS, WrittenActions
from horizon_imagination.bench.document import _Schema as Bench
from horizon_imagination.data.layout import FORMAT, VERSION
from horizon_imagination.data.layout import _Content as Dataset
from horizon_imagination.run.folder import Launch
from horizon_imagination.run.needs import Estimated
from horizon_imagination.run.read import _Evaluation as Evaluation
from horizon_imagination.run.read import _Session as Session
from horizon_imagination.scale.suite import _Described as Described
from horizon_imagination.snapshots import BestScore, Progress, UnfinishedEpoch
from horizon_imagination.studies.quality.records import _Line as Point
from horizon_imagination.studies.quality.results import _Resampled as Resampled

SCHEMAS = {
    "dataset.json": Dataset,
    "run.json": Launch,
    "state.json": Progress,
    "score.json": BestScore,
    "estimate.json": Estimated,
    "evaluation": Evaluation,
    "sessions.jsonl": Session,
    "suite.json": Described,
    "bench.json": Bench,
    "points.jsonl": Point,
    "resampled": Resampled,
}
"""Of every file that is read against a schema; `config.json` and `agent.json` hold a config, whose
fields depend on each other."""

WHOLE = st.integers(1 - 2**63, 2**63 - 1)
NATURAL = st.integers(0, 2**63 - 1)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
PLAIN = {int: WHOLE, float: FINITE | WHOLE, str: TEXT, bool: st.booleans()}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)
"""Any JSON value that Python reads, NaN and texts that are not UTF-8 among them."""
EPISODE = st.fixed_dictionaries(
    {"start": NATURAL, "length": NATURAL}, optional={"info": st.dictionaries(TEXT, ANYTHING)}
)
FACTORS = st.lists(st.integers(1, MOST_ACTIONS), min_size=1, max_size=64)
RANGES: dict[Any, dict[str, st.SearchStrategy]] = {
    Progress: {x: NATURAL for x in ("epoch", "env_steps", "failures")}
    | {"learner_steps": st.dictionaries(TEXT, NATURAL)},
    UnfinishedEpoch: {x: NATURAL for x in ("steps", "collected", "failures")},
    WrittenActions: {"kind": st.just("multi_discrete"), "factors": FACTORS},
    Dataset: {
        "format": st.just(FORMAT),
        "version": st.just(VERSION),
        "frame_shape": st.tuples(*[st.integers(1, 512)] * 3),
        "rows": NATURAL,
        "episodes": st.lists(EPISODE, max_size=4),
        "num_actions": st.integers(1, MOST_ACTIONS),
        "actions": st.none(),
    },
}
REQUIRED = {WrittenActions: {"factors"}, Dataset: {"num_actions"}}
"""Fields with a default that their class refuses."""


def documents(kind: Any) -> st.SearchStrategy:
    """JSON values that fit a type."""
    if dataclasses.is_dataclass(kind):
        return _objects(kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*(st.none() if x is type(None) else documents(x) for x in arguments))
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if origin in (tuple, list):
        if origin is list or arguments[-1] is Ellipsis:
            return st.lists(documents(arguments[0]), max_size=4)
        return st.tuples(*map(documents, arguments)).map(list)
    if origin in (dict, collections.abc.Mapping):
        return st.dictionaries(TEXT, documents(arguments[1]), max_size=4)
    if kind is dict:
        return st.dictionaries(st.text(max_size=9), ANYTHING, max_size=4)
    if kind is list:
        return st.lists(ANYTHING, max_size=4)
    return ANYTHING if kind is Any else PLAIN[kind]


def _objects(kind: Any) -> st.SearchStrategy:
    hints, required, optional = typing.get_type_hints(kind), {}, {}
    for field in dataclasses.fields(kind):
        values = RANGES.get(kind, {}).get(field.name)
        has_default = field.default is not field.default_factory  # both are MISSING without one
        place = optional if has_default else required
        if field.name in REQUIRED.get(kind, ()):
            place = required
        key = field.metadata.get("key", field.name)
        place[key] = documents(hints[field.name]) if values is None else values
    return st.fixed_dictionaries(required, optional=optional)


@st.composite
def changed(draw: st.DrawFn, document: Any) -> Any:
    """The document with one change somewhere; the parts that are not changed are shared."""
    if isinstance(document, dict | list) and document and draw(st.integers(0, 9)):
        keys = list(document) if isinstance(document, dict) else list(range(len(document)))
        key = draw(st.sampled_from(keys))
        copy = document.copy()
        how = draw(st.sampled_from(["change", "change", "change", "remove", "add"]))
        if how == "change":
            copy[key] = draw(changed(copy[key]))
        elif how == "remove":
            del copy[key]
        elif isinstance(copy, dict):
            copy[draw(st.text(max_size=9))] = draw(ANYTHING)
        else:
            copy.insert(key, draw(ANYTHING))
        return copy
    return draw(ANYTHING)


def without_defaults(draw: st.DrawFn, config: Any) -> dict[str, Any]:
    """A config as JSON, without some of the fields that are as their class has them by default."""
    found = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        is_default = value == field.default or (
            callable(field.default_factory) and value == field.default_factory()
        )
        if is_default and draw(st.booleans()):
            continue
        nested = dataclasses.is_dataclass(value)
        found[field.name] = without_defaults(draw, value) if nested else value
    return found
