"""How many logs one API process lets be followed at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import Gauge

from zun.domain.errors import TooManyListeners

_STREAMS = Gauge("zun_api_log_streams", "Streams of logs now.")


class LogPlaces:
    """Places for streams, of one process."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0

    @contextmanager
    def place(self) -> Iterator[None]:
        """Raises TooManyListeners."""
        if self._taken >= self._most:
            raise TooManyListeners(f"This API process serves {self._most} streams of logs at once; try again.")
        self._taken += 1
        _STREAMS.inc()
        try:
            yield
        finally:
            self._taken -= 1
            _STREAMS.dec()
