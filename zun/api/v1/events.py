"""Route of status events: what happens to a project's containers and capsules, as it happens."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

from zun.api import paging
from zun.api.call import Answer, Call, Events
from zun.api.event_stream import Lease, frame, keep_alive, last_event_id, opening
from zun.api.table import Route
from zun.control.containers_lookup import scope
from zun.control.event_feed import FeedClosed, Listener
from zun.domain.errors import Unavailable
from zun.domain.status_event import StatusEvent


async def listen(call: Call) -> Answer:
    """From now on, or behind ``Last-Event-ID``."""
    paging.refuse_unknown(call, ())
    all_projects = paging.free_boolean(call, "all_projects")
    if all_projects:
        call.policy.enforce("event:get_all_all_projects", call.caller)
    after = last_event_id(call.headers.get("Last-Event-ID"))
    stack = AsyncExitStack()
    limits = scope(call.caller, all_projects=all_projects)
    listener = await stack.enter_async_context(call.control.events.listen(limits, after))
    return Answer(Events(_pieces(call, listener), stack))


async def _pieces(call: Call, listener: Listener) -> AsyncGenerator[bytes, None]:
    lease = Lease(call)
    pause: float = call.control.conf.api.stream_keepalive
    yield opening(str(listener.position))
    while True:
        try:
            events = await listener.next(lease.wait(pause))
        except FeedClosed:
            yield frame("end", {"reason": "shutdown"})
            return
        except Unavailable:  # the client comes again, and goes on where it was
            yield frame("end", {"reason": "unavailable"})
            return
        if events:
            yield b"".join(frame(one.kind, shown(one), str(one.number)) for one in events)
        elif lease.wait(1) > 0:  # else the stream ends now
            yield keep_alive(str(listener.position))
        if reason := await lease.ended():
            yield frame("end", {"reason": reason})
            return


def shown(event: StatusEvent) -> dict[str, Any]:
    """What a client is told; times are UTC."""
    return {
        "uuid": event.container_uuid,
        "type": event.container_type,
        "capsule_uuid": event.capsule_uuid,
        "name": event.name,
        "project_id": event.project_id,
        "status": event.status,
        "previous_status": event.previous_status,
        "status_reason": event.status_reason,
        "time": event.created_at.isoformat(timespec="microseconds") + "+00:00",
    }


ROUTES: list[Route] = [
    Route(
        "GET", "/events", "event.list", listen, policy="event:get_all", parameters=("all_projects",), raises=(410,),
        events=True, headers=("Last-Event-ID",),
        summary="Status changes of the project's containers and capsules, as server-sent events",
    )
]  # fmt: skip
