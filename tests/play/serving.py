"""`horizon play` in a process of its own, and how to talk to it."""

import json
import os
import subprocess
import sys

from websockets.sync.client import connect


class Served:
    """`horizon play` in a process of its own."""

    def __init__(self, *flags, cwd):
        command = [sys.executable, "-m", "horizon_imagination", "play", "--port", "0", *flags]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=cwd, env=os.environ
        )
        said = self.process.stdout.readline()
        assert said.startswith("open http://"), said
        self.url = said.split()[1]
        self.port = int(self.url.split(":")[2].split("/")[0])
        self.cwd = cwd

    def connect(self, origin=None, query="", **more):
        """A client like a browser's."""
        host = f"127.0.0.1:{self.port}"
        address = f"ws://{host}/socket{query}"
        origin = f"http://{host}" if origin is None else origin
        return connect(address, origin=origin or None, max_size=None, open_timeout=60, **more)

    def stop(self):
        """End it, as Ctrl-C does."""
        self.process.terminate()
        self.process.wait(30)
        self.process.stdout.close()


def head(message):
    """The JSON of a message."""
    if isinstance(message, str):
        return json.loads(message)
    length = int.from_bytes(message[:4], "little")
    return json.loads(message[4 : 4 + length])


def blobs(message):
    """What comes after the JSON."""
    place = 4 + int.from_bytes(message[:4], "little")
    parts = []
    for size in head(message)["blobs"]:
        parts.append(message[place : place + size])
        place += size
    return parts


def say(client, kind, **fields):
    """Send a message."""
    client.send(json.dumps({"type": kind, **fields}))


def until(client, kind, true=lambda message: True):
    """The next message of a kind that fits; as it came."""
    while True:
        message = client.recv(60)
        if head(message)["type"] == kind and true(head(message)):
            return message
