"""``zun-status upgrade check``: what it finds, and the exit code scripts act on."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from zun.cli import upgrade_check
from zun.store import migrate


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A machine that is ready: database at head, no policy file, an engine that answers."""
    migrate.upgrade(f"sqlite:///{tmp_path}/zun.sqlite")
    file = tmp_path / "zun.conf"
    file.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}\n"
        f"[database]\nconnection = sqlite:///{tmp_path}/zun.sqlite\n"
        f"[docker]\napi_url = unix://{tmp_path}/engine.sock\n"
        f"[api]\npolicy_file = {tmp_path}/policy.yaml\n"
    )
    return file


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[None]:
    """Says OK to each ping."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "engine.sock"))
        listening.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = listening.accept()
                    with client:
                        client.recv(4096)
                        client.sendall(b"HTTP/1.1 200 OK\r\n\r\nOK")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(60)


def run(config: Path) -> Result:
    return CliRunner().invoke(upgrade_check.app, ["upgrade", "check", "--config-file", str(config)])


@pytest.mark.usefixtures("engine")
def test_all_is_well(config: Path) -> None:
    result = run(config)
    assert (result.exit_code, result.output.count("Result: Success")) == (0, 4), result.output


def test_an_engine_that_is_missing_is_a_warning(config: Path) -> None:
    result = run(config)
    assert result.exit_code == 1
    assert "Check: Container Engine\n  Result: Warning\n  Details: No Docker engine answers at unix://" in result.output


@pytest.mark.usefixtures("engine")
def test_a_policy_file_in_json_is_a_warning(config: Path) -> None:
    (config.parent / "policy.yaml").write_text('{"container:create": "role:admin"}')
    result = run(config)
    assert result.exit_code == 1
    assert "is JSON; write it as YAML" in result.output


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("text", ["container:create: [", "- a\n- b", "container:create: 'role:'x"])
def test_a_policy_file_that_cannot_be_used_is_a_failure(config: Path, text: str) -> None:
    (config.parent / "policy.yaml").write_text(text)
    result = run(config)
    assert result.exit_code == 2
    assert f"[api]/policy_file {config.parent}/policy.yaml cannot be used" in result.output


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("revision", "told"),
    [(None, "The database has no tables yet; run: zun-db-manage upgrade"), ("9999_future", "newer than this version")],
)
def test_a_database_that_is_not_at_head_is_a_failure(config: Path, revision: str | None, told: str) -> None:
    import sqlite3

    with contextlib.closing(sqlite3.connect(config.parent / "zun.sqlite", isolation_level=None)) as connection:
        if revision is None:
            connection.execute("DROP TABLE alembic_version")
        else:
            connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    result = run(config)
    assert result.exit_code == 2
    assert told in result.output


@pytest.mark.usefixtures("engine")
def test_a_server_that_does_not_answer_is_a_failure(config: Path) -> None:
    text = config.read_text().replace(
        f"sqlite:///{config.parent}/zun.sqlite", "mysql+pymysql://zun:secret@127.0.0.1:1/zun"
    )
    config.write_text(text)
    result = run(config)
    assert result.exit_code == 2
    assert "The database does not answer: " in result.output
    assert "secret" not in result.output


def test_a_wrong_option_ends_with_two(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text("[database]\nconnection = oracle://x\n")
    monkeypatch.setattr("sys.argv", ["zun-status", "upgrade", "check", "--config-file", str(config)])
    with pytest.raises(SystemExit) as ended:
        upgrade_check.main()
    assert ended.value.code == 2
    assert "names the database 'oracle'" in capsys.readouterr().err
