"""`horizon train`, killed by itself at a point: killed_train.py POINT EPOCH ARGUMENTS…

The points are stages of an epoch (after their second step), `metrics` (the line is written, the
snapshot is not), `snapshot` (half of its largest file is written) and `publish` (all is written,
nothing renamed).
"""

import os
import signal
import sys

from horizon_imagination import checkpoint
from horizon_imagination.cli import main
from horizon_imagination.run import display, logs

point, epoch = sys.argv[1], int(sys.argv[2])


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


class Doomed(display.Display):
    def step(self, count=1):
        super().step(count)
        if (self.name, self.at) == (point, epoch) and self.done >= 2:
            die()


class DoomedMetrics(logs.MetricsFile):
    def epoch(self, number, metrics):
        super().epoch(number, metrics)
        if (point, number) == ("metrics", epoch):
            die()
        if number == epoch and point == "snapshot":
            checkpoint.save_file = half_a_file
        if number == epoch and point == "publish":
            checkpoint.publish = die


def half_a_file(tensors, path):
    from safetensors.torch import save_file

    save_file(tensors, path)
    os.truncate(path, os.path.getsize(path) // 2)
    die()


import horizon_imagination.run.start as start  # noqa: E402

start.Display, logs.MetricsFile = Doomed, DoomedMetrics
sys.exit(main(["train", *sys.argv[3:]]))
