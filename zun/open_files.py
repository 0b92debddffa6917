"""Open files of a process: a few are kept back for its own work, and that they are used up is told.

Clients could take all of them otherwise, and the process would have none for its database, its engine and its bus.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource

LOG = logging.getLogger(__name__)

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE})
"""Numbers of an OSError that says: no more files for the process, or for the machine."""
_KEPT = 256
_LOOK_SECONDS = 5.0


def limit() -> int:
    """RLIMIT_NOFILE of now; somebody may change it from outside."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def kept_back(descriptor: int) -> bool:
    """Is this one of the last, which are not for clients? The kernel gives the lowest that is free, so those below are
    in use."""
    bound = limit()
    return descriptor >= bound - min(_KEPT, bound // 8)


async def watch() -> None:
    """Until cancelled, say when the files are used up, and when there is room again."""
    told = ""
    while True:
        if (found := _look()) != told:
            if found:
                LOG.error("action=open-files result=exhausted limit=%s reason=%s: clients are refused", limit(), found)
            else:
                LOG.warning("action=open-files result=well again limit=%s", limit())
            told = found
        await asyncio.sleep(_LOOK_SECONDS)


def _look() -> str:
    """The system's words when there is no room; empty when all is well."""
    try:
        probe = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return os.strerror(error.errno or errno.EMFILE)
    os.close(probe)
    return os.strerror(errno.EMFILE) if kept_back(probe) else ""
