"""Whatever others send, the server keeps serving the player, and its memory stays bounded."""

import asyncio
import contextlib
import json
import os
import random
import socket
import threading
import time
from collections import Counter
from itertools import pairwise

import psutil
import pytest
from serving import head, say, until
from websockets.asyncio.client import connect as connect_async
from websockets.exceptions import ConnectionClosed

from horizon_imagination.play import messages as m

pytestmark = pytest.mark.slow
MESSAGES, ROOM = 10_000, 60e6
"""So many are sent; so many bytes may the server grow by."""


class Player(threading.Thread):
    """Plays on, and notes when frames come."""

    def __init__(self, served):
        super().__init__(daemon=True)
        self.served, self.times, self.over = served, [], threading.Event()
        self.stack = contextlib.ExitStack()
        self.client = self.stack.enter_context(served.connect())
        until(self.client, "role", lambda r: r["mine"])

    def run(self):
        say(self.client, "choose", player="policy", speed=20)
        say(self.client, "run", on=True)
        while not self.over.is_set():
            until(self.client, "frame")
            self.times.append(time.monotonic())

    def stop(self):
        self.over.set()
        self.join(30)
        say(self.client, "run", on=False)
        self.stack.close()

    def rate(self, since):
        """Frames a second."""
        return sum(t > since for t in self.times) / (time.monotonic() - since)

    def longest_wait(self, since):
        times = [since, *(t for t in self.times if t > since), time.monotonic()]
        return max(b - a for a, b in pairwise(times))


@pytest.fixture
def player(served):
    made = Player(served)
    made.start()
    while not made.times:
        time.sleep(0.05)
    yield made
    made.stop()


def memory(served):
    return psutil.Process(served.process.pid).memory_info().rss


def malformed(dice):
    """Something that no page sends."""
    return dice.choice(
        [
            lambda: os.urandom(dice.randint(0, 200)),
            lambda: os.urandom(dice.randint(0, 200)).decode("latin-1"),
            lambda: "x" * (m.MAX_BYTES + 1),
            lambda: bytes(64_000),
            lambda: "[" * 4000,
            lambda: json.dumps({"type": "look", "place": {"source": "/etc/passwd"}}),
            lambda: json.dumps({"type": "act", "action": dice.choice([None, -1, 1e300, "0", []])}),
            lambda: json.dumps({"type": dice.choice(["open", "", None, 7, "act" * 99])}),
            lambda: json.dumps({"type": "imagine", "kind": "horizon", "budget": 10**30}),
        ]
    )()


def handshake(served):
    host = f"127.0.0.1:{served.port}"
    lines = ["GET /socket HTTP/1.1", f"Host: {host}", f"Origin: http://{host}"]
    lines += ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
    lines += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "", ""]
    return "\r\n".join(lines).encode()


def framed(message):
    """A websocket frame, masked with zeros."""
    payload = message.encode() if isinstance(message, str) else message
    opcode, length = (1 if isinstance(message, str) else 2), len(payload)
    size = [128 + length] if length < 126 else [128 + 126, *length.to_bytes(2, "big")]
    return bytes([128 + opcode, *size, 0, 0, 0, 0]) + payload


async def close_code(reader):
    """The code with which the server closes; what it says before is passed over."""
    while True:
        opcode, length = await reader.readexactly(2)
        if length >= 126:
            more = await reader.readexactly(2 if length == 126 else 8)
            length = int.from_bytes(more, "big")
        payload = await reader.readexactly(length)
        if opcode == 0x88:
            return int.from_bytes(payload[:2], "big")


async def throw(served, count, seed):
    """Send malformed messages, each on a connection of its own, since the first one closes it.

    How many were answered with which code; 0 if the connection was cut instead.
    """
    dice, codes = random.Random(seed), Counter()
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(handshake(served))
        try:
            await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
            writer.write(framed(malformed(dice)))
            codes[await asyncio.wait_for(close_code(reader), 60)] += 1
        except (ConnectionError, asyncio.IncompleteReadError):
            codes[0] += 1
        writer.close()
    return codes


@pytest.mark.timeout(600)
def test_ten_thousand_malformed_messages_do_not_disturb_the_player(served, player):
    async def all_of_them():
        thrown = await asyncio.gather(*(throw(served, MESSAGES // 20, i) for i in range(20)))
        return sum(thrown, Counter())

    asyncio.run(throw(served, 50, 99))
    before, begun = memory(served), time.monotonic()
    codes = asyncio.run(all_of_them())
    assert sum(codes.values()) == MESSAGES
    assert set(codes) <= {1008, 1009, 0} and codes[0] < MESSAGES / 100, codes
    assert player.longest_wait(begun) < 5
    assert memory(served) - before < ROOM
    assert served.process.poll() is None


def test_fifty_clients_that_come_and_drop_leave_nothing_behind(served, player):
    before, begun = memory(served), time.monotonic()

    async def come_and_drop():
        async def one(number):
            host = f"127.0.0.1:{served.port}"
            async with connect_async(f"ws://{host}/socket", origin=f"http://{host}") as client:
                await client.recv()
                if number % 2:
                    client.transport.abort()  # a connection that is lost

        await asyncio.gather(*(one(i) for i in range(50)))

    for _ in range(4):
        asyncio.run(come_and_drop())
    with served.connect() as viewer:
        until(viewer, "role", lambda r: r["viewers"] <= 2)
    assert player.longest_wait(begun) < 5
    assert memory(served) - before < ROOM


def test_more_than_there_is_room_for_are_turned_away(served, player):
    async def come(everyone_here):
        host = f"127.0.0.1:{served.port}"
        async with connect_async(f"ws://{host}/socket", origin=f"http://{host}") as client:
            try:
                await client.recv()
            except ConnectionClosed as end:
                return end.rcvd.code == 1013
            finally:
                await everyone_here.wait()
        return False

    async def all_of_them():
        return sum(await asyncio.gather(*(come(barrier) for _ in range(80))))

    barrier = asyncio.Barrier(80)
    refused = asyncio.run(all_of_them())
    assert 10 <= refused <= 20 and len(player.times) > 1


def never_reads(served):
    """A client that shakes hands and then never reads, with a small window."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", served.port))
    sock.sendall(handshake(served))
    return sock


def test_clients_that_never_read_slow_nobody_down_and_are_let_go(served, player):
    begun = time.monotonic()
    time.sleep(5)
    alone = player.rate(begun)
    deaf = [never_reads(served) for _ in range(10)]
    with served.connect() as viewer:
        until(viewer, "role", lambda r: r["viewers"] >= 12)
        before, begun = memory(served), time.monotonic()
        time.sleep(10)
        assert player.longest_wait(begun) < 2
        assert player.rate(begun) > alone / 2
        assert memory(served) - before < ROOM
        until(viewer, "role", lambda r: r["viewers"] <= 2)
    for sock in deaf:
        sock.close()


def test_a_client_that_says_nothing_in_http_does_not_block_others(served, player):
    silent = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(50)]
    for sock in silent[::2]:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: ")
    with served.connect() as viewer:
        assert head(until(viewer, "hello"))["agent"] == "catch"
    for sock in silent:
        sock.close()
