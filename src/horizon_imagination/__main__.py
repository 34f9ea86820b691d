"""`python -m horizon_imagination` is the command `horizon`."""

import sys

from horizon_imagination.cli import main

if __name__ == "__main__":
    sys.exit(main())
