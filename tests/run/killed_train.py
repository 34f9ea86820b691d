"""`horizon train`, killed by itself at a point: killed_train.py POINT EPOCH ARGUMENTS…

The points are stages of an epoch (once two steps are done), `metrics` (the line is written, the
snapshot is not), `snapshot` (half of a file of it is written) and `publish` (all is written,
nothing renamed).
"""

import os
import signal
import sys

from safetensors.torch import save_file

from horizon_imagination import checkpoint
from horizon_imagination.cli import main
from horizon_imagination.run import display, logs, start


def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def half_a_file(tensors, path):
    save_file(tensors, path)
    os.truncate(path, os.path.getsize(path) // 2)
    die()


def doom(point, last):
    """Arrange for the end."""

    class Doomed(display.Display):
        def on_step(self, count=1):
            super().on_step(count)
            if (self.name, self.at) == (point, last) and self.done >= 2:
                die()

    class DoomedMetrics(logs.MetricsFile):
        def on_metrics(self, epoch, metrics):
            super().on_metrics(epoch, metrics)
            if (point, epoch) == ("metrics", last):
                die()
            if (point, epoch) == ("snapshot", last):
                checkpoint.save_file = half_a_file
            if (point, epoch) == ("publish", last):
                checkpoint.publish = die

    start.Display, logs.MetricsFile = Doomed, DoomedMetrics


if __name__ == "__main__":
    doom(sys.argv[1], int(sys.argv[2]))
    sys.exit(main(["train", *sys.argv[3:]]))
