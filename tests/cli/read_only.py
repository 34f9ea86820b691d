"""Runs command lines, one a line of stdin, and prints what they said: [status, out, err] each.

With a folder as argument, that folder is read-only for this process: the superuser, whom file
modes do not stop, gets a mount of its own (`unshare -rm`).
"""

import contextlib
import io
import json
import shlex
import subprocess
import sys

from horizon_imagination.cli import main


def run(line: str) -> list:
    """One command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(shlex.split(line))
    return [status, out.getvalue(), err.getvalue()]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        folder = sys.argv[1]
        subprocess.run(["mount", "--bind", folder, folder], check=True)
        subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)
    print(json.dumps([run(line) for line in sys.stdin.read().splitlines()]))
