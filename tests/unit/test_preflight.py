"""What is missing before the start is said in one sentence."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from zun.cli.preflight import require_engine, require_port
from zun.cli.problem import Problem, told
from zun.conf import ConfigError


@contextmanager
def answering(path: Path, answer: bytes) -> Iterator[str]:
    """A server on a Unix socket that gives one answer."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"unix://{path}"
        thread.join(60)
        assert not thread.is_alive()


def test_an_engine_that_answers(tmp_path: Path) -> None:
    with answering(tmp_path / "s", b"HTTP/1.1 200 OK\r\n\r\nOK") as url:
        require_engine(url)


def test_something_else_answers(tmp_path: Path) -> None:
    with (
        answering(tmp_path / "s", b"HTTP/1.1 404 Not Found\r\n\r\n") as url,
        pytest.raises(Problem, match="not a Docker"),
    ):
        require_engine(url)


def test_no_engine_names_the_socket_and_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"answers at unix://.*/none \(No such file.*apt-get install docker.io"):
        require_engine(f"unix://{tmp_path}/none")


def test_a_taken_port_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Problem, match=f"Port {port} of 127.0.0.1 is taken"):
            require_port("127.0.0.1", port)


def test_a_foreign_address_is_refused() -> None:
    with pytest.raises(Problem, match=r"cannot listen on 192\.0\.2\.1"):
        require_port("192.0.2.1", 9517)


@pytest.mark.parametrize("error", [Problem("It is so."), ConfigError("It is so."), OSError(2, "It is so")])
def test_told_is_one_line_and_exit_code_1(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, told():
        raise error
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("zun: ")
    assert said.endswith("It is so.\n")
    assert said.count("\n") == 1
