"""os-brick in a process of its own, one fork a call: a call that hangs is killed alone.

Requests on stdin, answers on stdout, one JSON object a line: ``{id, call, arguments, seconds}`` or ``{id, cancel}``;
``{id, result}`` or ``{id, error}``. Ends with its stdin; calls at work go on to their end: half of one is worse.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_SCAN_ATTEMPTS = 5


def properties(ip: str, host: str, multipath: bool) -> dict[str, Any]:
    """What Cinder has to know of this host to open a volume to it."""
    from os_brick.initiator import connector

    found = connector.get_connector_properties("", ip, multipath, False, host=host)
    return {**found, "mountpoint": "na"}


def connect(connection: Mapping[str, Any], multipath: bool) -> dict[str, Any]:
    """The device of a volume on this host; ``path`` in the result."""
    return dict(_connector(connection, multipath).connect_volume(dict(connection)))


def disconnect(connection: Mapping[str, Any], device: Mapping[str, Any] | None, multipath: bool, force: bool) -> None:
    """Flush, and take the device off this host; absent is success."""
    _connector(connection, multipath).disconnect_volume(dict(connection), device, force=force, ignore_errors=force)


def _connector(connection: Mapping[str, Any], multipath: bool) -> Any:
    from os_brick.initiator import connector

    kind = connection["driver_volume_type"]
    named: dict[str, Any] = {"use_multipath": multipath, "device_scan_attempts": _SCAN_ATTEMPTS}
    if kind == "rbd":
        named["do_local_attach"] = True  # a device of the kernel, not a handle of librbd
    return connector.InitiatorConnector.factory(kind, "", **named)


CALLS: Mapping[str, Callable[..., Any]] = {"properties": properties, "connect": connect, "disconnect": disconnect}


def prepare(lock_path: str) -> None:
    """We are root already: os-brick's privileged parts run as they are, without sudo and a daemon of its own."""
    import os_brick
    from os_brick import privileged
    from os_brick.initiator import connector  # noqa: F401 - loaded once, before the forks
    from oslo_concurrency import lockutils
    from oslo_config import cfg

    cfg.CONF([], project="zun", default_config_files=[])
    lockutils.set_defaults(lock_path)
    os_brick.setup(cfg.CONF)
    for context in (privileged.default, privileged.brick_privsep_hide_output):
        context.set_client_mode(False)


@dataclass
class _Call:
    id: int
    process: int
    ends: float
    pipe: int
    answer: bytes = b""


class Server:
    """``answers``: the file that answers are written to."""

    def __init__(self, requests: int, answers: int, calls: Mapping[str, Callable[..., Any]] = CALLS) -> None:
        self._requests = requests
        self._answers = answers
        self._functions = calls
        self._calls: dict[int, _Call] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(requests, selectors.EVENT_READ)
        self._rest = b""

    def serve(self) -> None:
        """Until stdin ends."""
        while True:
            nearest = min((call.ends for call in self._calls.values()), default=None)
            wait = None if nearest is None else max(0.0, nearest - time.monotonic())
            for key, _ in self._selector.select(wait):
                if key.fd == self._requests:
                    if not self._read_requests():
                        return
                elif key.data in self._calls:
                    self._read_answer(self._calls[key.data])
            for call in [call for call in self._calls.values() if call.ends <= time.monotonic()]:
                self._kill(call, "it did not end in time")
            self._reap()

    def _read_requests(self) -> bool:
        received = os.read(self._requests, 65536)
        *lines, self._rest = (self._rest + received).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if not request.get("cancel"):
                self._start(request)
            elif request["id"] in self._calls:
                self._kill(self._calls[request["id"]], "it was called off")
        return bool(received)

    def _start(self, request: Mapping[str, Any]) -> None:
        reading, writing = os.pipe()
        process = os.fork()
        if process == 0:
            os.close(reading)
            self._run(request, writing)
        os.close(writing)
        call = _Call(request["id"], process, time.monotonic() + float(request["seconds"]), reading)
        self._calls[call.id] = call
        self._selector.register(reading, selectors.EVENT_READ, call.id)

    def _run(self, request: Mapping[str, Any], writing: int) -> None:
        """In the fork: one call, its answer, the end."""
        try:
            os.setsid()  # tools started by it are killed with it
            os.close(self._requests)
            os.close(self._answers)
            answer: dict[str, Any] = {"id": request["id"]}
            try:
                answer["result"] = self._functions[request["call"]](**request["arguments"])
            except BaseException as error:
                answer["error"] = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            _write(writing, json.dumps(answer, default=str).encode())
        finally:
            os._exit(0)

    def _read_answer(self, call: _Call) -> None:
        received = os.read(call.pipe, 65536)
        call.answer += received
        if not received:
            self._close(call)
            died = {"id": call.id, "error": "it died"}
            _write(self._answers, (call.answer or json.dumps(died).encode()) + b"\n")

    def _kill(self, call: _Call, reason: str) -> None:
        for send in (os.killpg, os.kill):  # by its own id as well: it may not lead its group yet
            try:
                send(call.process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._close(call)
        _write(self._answers, json.dumps({"id": call.id, "error": reason}).encode() + b"\n")

    def _close(self, call: _Call) -> None:
        self._selector.unregister(call.pipe)
        os.close(call.pipe)
        del self._calls[call.id]

    def _reap(self) -> None:
        """Without waiting: what hangs in the kernel does not even die."""
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def main() -> None:
    """Answers go to the real stdout; whatever else is printed goes to stderr."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    answers = os.dup(1)
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the agent says when to end
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    prepare(sys.argv[1])
    _write(answers, b'{"ready": true}\n')
    Server(0, answers).serve()


if __name__ == "__main__":
    main()
