"""Runs the commands of `horizon` that stdin names, each a line with a JSON list of words.

The package is imported once, and trains once in a folder (stopped_ranks.py FOLDER), which imports
the rest. Every launcher and every rank is a fork of this process, so that each costs its own work
and not the start of Python. Prints the process id of a command when it begins,
and its exit status when it has ended.
"""

import json
import os
import signal
import sys
from contextlib import redirect_stdout
from types import SimpleNamespace

import torch.utils.tensorboard

import horizon_imagination.run.start as start
from horizon_imagination.cli import main
from horizon_imagination.run import signals
from horizon_imagination.run.needs import Needs
from horizon_imagination.scale import distributed

WARM = ["train", "--preset", "debug", "--training.epochs", "1", "--training.evaluate-every", "1"]
WARM += ["--world-model.learner.first-epoch", "0", "--controller.learner.first-epoch", "0"]
WARM += [f"--{x}.learner.steps-per-epoch=1" for x in ("tokenizer", "world-model", "controller")]


class Forked:
    """What `launch` uses of `subprocess.Popen`, as a fork."""

    def __init__(self, command, env, start_new_session):
        assert command[1:3] == ["-m", "horizon_imagination"] and start_new_session
        self.returncode = None
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.environ.update(env)
            end(command[3:])

    def poll(self):
        if self.returncode is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if done else None
        return self.returncode

    def wait(self):
        _, status = os.waitpid(self.pid, 0)
        self.returncode = os.waitstatus_to_exitcode(status)

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def end(words):
    """Run a command and leave."""
    status = 99
    try:
        status = main(words)
    finally:
        os._exit(status)


def serve():
    """Run the commands that stdin names."""
    torch.set_num_threads(1)
    signals.PATIENCE = 200.0  # a busy machine is no hanging world
    distributed.subprocess = SimpleNamespace(Popen=Forked)
    start.describe_needs = lambda *_, **__: Needs("", 1)
    with redirect_stdout(sys.stderr):
        assert main([*WARM, "--out", sys.argv[1]]) == 0
    for line in sys.stdin:
        launcher = os.fork()
        if launcher == 0:
            os.dup2(2, 1)
            end(json.loads(line))
        print(launcher, flush=True)
        _, status = os.waitpid(launcher, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve()
