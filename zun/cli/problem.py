"""What stops a command: one clear sentence for the person at the terminal, exit code 1."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Problem(Exception):
    """The message is the whole story; it is shown without a traceback."""


@contextmanager
def told() -> Iterator[None]:
    """Shows a Problem, a wrong configuration or an unusable database as one sentence and exits with 1."""
    from zun.conf import ConfigError
    from zun.domain.errors import ZunError

    try:
        yield
    except Problem as problem:
        fail(str(problem))
    except ConfigError as error:
        fail(f"Wrong configuration: {error}")
    except ZunError as error:
        fail(error.message or type(error).__name__)
    except OSError as error:
        fail(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}.")


def fail(sentence: str) -> None:
    """Ends the process."""
    sys.stderr.write(f"zun: {sentence}\n")
    raise SystemExit(1)
