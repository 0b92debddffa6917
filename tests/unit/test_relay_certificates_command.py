"""`zun-manage relay certificates`: files for several nodes, kept while they are good."""

from __future__ import annotations

import stat
from pathlib import Path

from cryptography import x509
from typer.testing import CliRunner

from zun.cli.manage import app


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["relay", "certificates", *words])
    return done.exit_code, done.output + str(done.exception or "")


def test_each_node_has_a_certificate_for_its_address(tmp_path: Path) -> None:
    code, shown = run(str(tmp_path / "r"), "--node", "192.0.2.11", "--node", "node2.example.org")
    assert code == 0
    assert str(tmp_path / "r" / "192.0.2.11.pem") in shown
    ca = x509.load_pem_x509_certificate((tmp_path / "r" / "ca.pem").read_bytes())
    for name in ("192.0.2.11", "node2.example.org"):
        made = x509.load_pem_x509_certificate((tmp_path / "r" / f"{name}.pem").read_bytes())
        made.verify_directly_issued_by(ca)
        known = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert [str(one.value) for one in known] == [name]
        assert stat.S_IMODE((tmp_path / "r" / f"{name}.key").stat().st_mode) == 0o600


def test_a_node_is_added_and_the_others_are_kept(tmp_path: Path) -> None:
    run(str(tmp_path), "--node", "a.example")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert run(str(tmp_path), "--node", "a.example", "--node", "b.example")[0] == 0
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {"b.example.pem", "b.example.key"}


def test_what_is_no_name_is_refused(tmp_path: Path) -> None:
    for name in ("../outside", "", "proxy"):
        code, shown = run(str(tmp_path / "r"), "--node", name)
        assert code != 0
        assert "neither a host name nor an address" in shown
    assert not (tmp_path / "outside.pem").exists()
