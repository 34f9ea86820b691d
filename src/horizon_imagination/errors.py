"""What a user did wrong, said in one line."""

from collections.abc import Iterator
from contextlib import contextmanager


class UsageError(ValueError):
    """Bad input: the command line prints the message alone and exits with status 2.

    The message says what was wrong, what was expected and what to do.
    """


@contextmanager
def as_usage_error() -> Iterator[None]:
    """Turn the `ValueError` of a function that was handed a user's values into a `UsageError`."""
    try:
        yield
    except UsageError:
        raise
    except ValueError as error:
        raise UsageError(str(error)) from error
