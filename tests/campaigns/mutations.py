"""Ways to damage a file: bytes, JSON values, tensors' headers, archives."""

import io
import json
import random
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

MAGIC = [0, 1, 127, 128, 255, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63]
WORDS = [
    *("subprocess:Popen", "os:abort", "os:system", "sys:exit", "../../../etc/passwd", "/dev/zero"),
    *("..", ".", "", "\x00", "a\nb", "\ud800", "NaN", "Infinity", "null", "catch", "CartPole-v1"),
    *("ALE/Pong-v5", "Craftium/Room-v0", "x" * 300, "é" * 200, "1e999", "{", "[" * 50, "%s%n"),
]
VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, -(10**30), 0.5, -0.0, 1e308, 1e-320),
    *(float("nan"), float("inf"), float("-inf"), [], {}, [[]], [None], {"": None}),
    *({"$array": "env/x", "dtype": "float32"}, {"$array": "run/env", "dtype": "O"}, [0] * 100),
]


def damaged(content: bytes, dice: random.Random, kind: str) -> bytes:
    """A damaged copy; `kind` is how the file is written: json, lines, tensors, archive or bytes."""
    how: dict[str, Callable[[bytes, random.Random], bytes]] = {
        "json": json_damage,
        "lines": lines_damage,
        "tensors": tensors_damage,
        "archive": archive_damage,
    }
    if kind in how and dice.random() < 0.75:
        with suppress(Exception):  # a file that is damaged already cannot be taken apart
            return how[kind](content, dice)
    return bytes_damage(content, dice)


def bytes_damage(content: bytes, dice: random.Random) -> bytes:
    """Bits flipped, pieces cut, doubled, moved or replaced; or something else altogether."""
    data = bytearray(content)
    choice = dice.randrange(9)
    if choice == 0:
        return bytes(data[: dice.randrange(len(data) + 1)])
    if choice == 1:
        return dice.choice([b"", b"\x00" * 64, b"[" * 3000, b'{"a":' * 3000, b"\xff\xfe{}"])
    if choice == 2:
        return dice.randbytes(dice.randrange(2000))
    for _ in range(dice.choice([1, 1, 2, 4, 16])):
        place = dice.randrange(len(data) + 1)
        if choice in (3, 4) and data:
            data[place % len(data)] ^= 1 << dice.randrange(8)
        elif choice == 5:
            data[place:place] = dice.choice(WORDS).encode("utf-8", "surrogatepass")
        elif choice == 6:
            del data[place : place + dice.randrange(1, 64)]
        elif choice == 7:
            number = dice.choice(MAGIC) % 2**64
            data[place : place + 8] = struct.pack(dice.choice("<>") + "Q", number)
        else:
            data[place:place] = data[: dice.randrange(256)]
    return bytes(data)


def json_damage(content: bytes, dice: random.Random) -> bytes:
    """A value replaced, taken away, added or renamed, somewhere in the tree."""
    tree = json.loads(content)
    for _ in range(dice.choice([1, 1, 1, 2, 5])):
        tree = _changed(tree, dice)
    return json.dumps(tree).encode()


def _changed(tree: Any, dice: random.Random) -> Any:
    if not isinstance(tree, dict | list) or not tree or dice.random() < 0.15:
        return _value(tree, dice)
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
    key = dice.choice(keys)
    if isinstance(tree[key], dict | list) and dice.random() < 0.8:
        tree[key] = _changed(tree[key], dice)
        return tree
    choice = dice.randrange(8)
    if choice == 0:
        del tree[key]
    elif choice == 1 and isinstance(tree, dict):
        tree[dice.choice(WORDS)] = _value(None, dice)
    elif choice == 2 and isinstance(tree, dict):
        tree[str(key) + "_"] = tree.pop(key)
    else:
        tree[key] = _value(tree[key], dice)
    return tree


def _value(before: Any, dice: random.Random) -> Any:
    if isinstance(before, int | float) and not isinstance(before, bool) and dice.random() < 0.3:
        return dice.choice([-before, before * 1000, before + 1, str(before), [before]])
    if dice.random() < 0.05:
        deep: Any = before
        for _ in range(dice.choice([10, 400, 900])):
            deep = [deep] if dice.random() < 0.5 else {"x": deep}
        return deep
    return dice.choice([*VALUES, *WORDS])


def lines_damage(content: bytes, dice: random.Random) -> bytes:
    """One of the lines damaged, doubled or moved."""
    lines = content.split(b"\n")
    place = dice.randrange(len(lines))
    choice = dice.randrange(4)
    if choice == 0 and lines[place]:
        lines[place] = json_damage(lines[place], dice)
    elif choice == 1:
        lines.insert(dice.randrange(len(lines)), lines[place])
    elif choice == 2:
        lines[place] = bytes_damage(lines[place], dice)
    else:
        dice.shuffle(lines)
    return b"\n".join(lines)


def tensors_damage(content: bytes, dice: random.Random) -> bytes:
    """A safetensors file with another header, or with numbers that are not finite."""
    (length,) = struct.unpack("<Q", content[:8])
    header, body = content[8 : 8 + length], bytearray(content[8 + length :])
    choice = dice.randrange(4)
    if choice == 0:
        return struct.pack("<Q", dice.choice(MAGIC) % 2**64) + content[8:]
    if choice == 1:
        place = dice.randrange(max(1, len(body) - 4)) // 4 * 4
        body[place : place + 4] = struct.pack("<f", dice.choice([float("nan"), 1e38, -1e38]))
        return content[: 8 + length] + bytes(body)
    header = json_damage(header, dice) if choice == 2 else bytes_damage(header, dice)
    return struct.pack("<Q", len(header)) + header + bytes(body)


class Danger:
    """An object whose unpickling would run a command."""

    def __reduce__(self) -> tuple:
        import os

        return os.system, ("touch /tmp/campaign-danger",)


def archive_damage(content: bytes, dice: random.Random) -> bytes:
    """An .npz with other arrays: pickles, wrong shapes and types, headers that promise much."""
    with np.load(io.BytesIO(content)) as file:
        arrays: dict[str, Any] = {name: file[name] for name in file.files}
    name = dice.choice(list(arrays))
    array, choice = arrays[name], dice.randrange(9)
    if choice == 0:
        arrays[name] = np.array([Danger()], dtype=object)
    elif choice == 1:
        arrays[name] = array.astype(dice.choice(["f8", "i1", "U5", "c8", "M8[s]", "?", "u8"]))
    elif choice == 2:
        arrays[name] = array.reshape(-1)[: dice.randrange(array.size + 1)]
    elif choice == 3:
        arrays[name] = array.reshape(dice.choice([(1, *array.shape), (*array.shape, 1), (-1,)]))
    elif choice == 4:
        arrays[name] = np.full(array.shape, dice.choice([-1, 2**31, 2**62, 255]))
    elif choice == 5:
        arrays[name] = np.full(array.shape, dice.choice([np.nan, np.inf, 1e300]))
    elif choice == 6:
        del arrays[name]
    elif choice == 7:
        arrays[name] = np.zeros((0, *array.shape[1:]), array.dtype)
    else:
        return promising(arrays, name, dice)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def promising(arrays: dict[str, Any], name: str, dice: random.Random) -> bytes:
    """An archive whose member claims more than it holds, or holds much more than its size."""
    claimed = dice.choice([2**20, 2**34, 2**40])
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({claimed}, 2, 2, 3), }}"
    head = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + header.encode() + b"\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for other, array in arrays.items():
            if other != name:
                kept = io.BytesIO()
                np.save(kept, array)
                file.writestr(f"{other}.npy", kept.getvalue())
        file.writestr(f"{name}.npy", head + bytes(dice.choice([16, 2**22])))
    return buffer.getvalue()
