"""Abuse the server of `horizon play`: malformed messages, dropped and deaf connections, bad HTTP.

A player plays on all the while: frames keep coming, and the server's memory stays in its bound.
"""

import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "play"))

from campaign import Folder, begin
from serving import Served, head, until
from test_abuse import ROOM, Player, handshake, memory, never_reads, throw

PATHS = ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/" + "a" * 9000)
WAIT = 15.0
"""Seconds that the player may wait for a frame on a busy machine."""


async def malformed(served, tally):
    """Messages that no page sends, each on its own connection."""
    codes = await throw(served, 40, tally.dice.random())
    tally.counts["messages"] += sum(codes.values())
    if not set(codes) <= {1008, 1009, 0}:
        tally.problem(f"malformed messages are answered with {dict(codes)}")


async def half_requests(served, tally):
    """Requests that stop somewhere, and bytes that are no HTTP."""
    for _ in range(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        whole = handshake(served)
        junk = os.urandom(tally.dice.randrange(1, 2000))
        writer.write(tally.dice.choice([whole[: tally.dice.randrange(len(whole))], junk]))
        with contextlib.suppress(ConnectionError, asyncio.TimeoutError):
            await asyncio.wait_for(reader.read(100), 0.05)
        writer.transport.abort()
        tally.counts["half_requests"] += 1


async def paths(served, tally):
    """Paths that lead out of the page's folder."""
    for path in (
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/" + "a" * 9000,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        host = f"127.0.0.1:{served.port}"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        try:
            answer = await asyncio.wait_for(reader.read(-1), 10)
        except ConnectionError:
            answer = b""
        if b"root:" in answer or b" 500 " in answer[:40]:
            tally.problem(f"{path[:40]} is answered with {answer[:60]!r}")
        writer.close()
        tally.counts["paths"] += 1


def deaf(served, tally):
    """Clients that never read."""
    sockets = [never_reads(served) for _ in range(5)]
    time.sleep(0.5)
    for sock in sockets:
        sock.close()
    tally.counts["deaf"] += len(sockets)


def round_of(served, tally, player):
    """One kind of abuse, then a look at the player."""
    begun = time.monotonic()
    kind = tally.dice.choice((malformed, malformed, half_requests, paths, deaf))
    found = kind(served, tally)
    if found is not None:
        asyncio.run(found)
    if served.process.poll() is not None:
        tally.problem(f"the server ended with {served.process.poll()} after {kind.__name__}")
        tally.seconds = 0
    elif player.longest_wait(begun) > WAIT:
        tally.problem(f"the player waited {player.longest_wait(begun):.1f} s at {kind.__name__}")


def main() -> int:
    """Abuse."""
    _, tally = begin("abuse", __doc__)
    with Folder() as folder:
        served = Served(cwd=folder)
        player = Player(served)
        player.start()
        while not player.times:
            time.sleep(0.05)
        asyncio.run(throw(served, 50, 99))
        before, tally.begun = memory(served), time.monotonic()
        while tally.left > 0:
            tally.show()
            round_of(served, tally, player)
        grown = memory(served) - before
        if grown > ROOM:
            tally.problem(f"the server's memory grew by {grown / 1e6:.0f} MB")
        with served.connect() as viewer:
            if head(until(viewer, "hello"))["agent"] != "catch":
                tally.problem("the server has another agent")
        player.stop()
        served.stop()
        tally.counts["frames_played"] = len(player.times)
    return tally.close(grown_mb=round(grown / 1e6, 1))


if __name__ == "__main__":
    sys.exit(main())
