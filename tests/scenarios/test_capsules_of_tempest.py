"""The four tests of capsules that zun-tempest-plugin has and skips, as our own, on one machine without a cloud."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.scenarios import capsule_templates as templates
from tests.support.capsule_cloud import CapsuleCloud
from tests.support.registry import start_registry
from tests.tempest.images import push_all

pytestmark = [pytest.mark.xdist_group("capsules"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def default_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A registry with the images that the templates name; each capsule pulls from it."""
    registry = start_registry(tmp_path_factory.mktemp("registry"))
    try:
        push_all(registry)
        yield registry.address
    finally:
        registry.stop()


def test_a_capsule_of_an_image_and_nothing_else(capsules: CapsuleCloud) -> None:
    uuid = capsules.ask(templates.plain())
    templates.all_run(capsules.wait(uuid, "Running"))
    capsules.delete(uuid)


def test_a_capsule_that_says_everything(capsules: CapsuleCloud) -> None:
    uuid = capsules.ask(templates.full())
    shown = capsules.wait(uuid, "Running")
    templates.all_run(shown)
    assert (shown["labels"], shown["cpu"], shown["memory"]) == ({"app": "web", "app1": "web1"}, 1.0, "256")
    member = shown["containers"][0]["uuid"]
    inside = capsules.execute(member, "/bin/bash -c 'echo $ENV1 $ENV2; pwd'")
    assert inside == "/usr/local/bin /usr/bin\n/root\n"


def test_a_capsule_with_a_volume_that_is_there_already(capsules: CapsuleCloud) -> None:
    product = capsules.product
    volume_id = product.cli("volume", "create", "mine", "--size", "1").stdout.strip()
    for _ in range(2):  # what the first one wrote, the second one reads
        uuid = capsules.ask(templates.with_volume(volume_id))
        shown = capsules.wait(uuid, "Running")
        templates.all_run(shown)
        member = shown["containers"][0]["uuid"]
        lines = capsules.execute(member, "sh -c 'echo line >> /test-volume/file; cat /test-volume/file'")
        assert product.query("SELECT volume_id FROM volume_mappings")[0]["volume_id"] == volume_id
        capsules.delete(uuid)
    assert lines == "line\nline\n"
    product.cli("volume", "delete", volume_id)
    assert product.query("SELECT * FROM local_volumes") == []


def test_a_capsule_whose_init_container_writes_what_its_server_serves(capsules: CapsuleCloud) -> None:
    uuid = capsules.ask(templates.with_init_container())
    shown = capsules.wait(uuid, "Running")
    templates.all_run(shown)
    assert len(shown["init_containers"]) == 1
    capsules.says(shown["containers"][0]["uuid"], "wget -qO- http://127.0.0.1/", templates.PAGE)  # the client asks once
    client = capsules.ask(templates.asking(templates.address_of(shown)))
    member = capsules.wait(client, "Stopped")["containers"][0]["uuid"]
    assert templates.PAGE in capsules.logs(member, templates.PAGE)
    capsules.delete(client)
    capsules.delete(uuid)
    assert capsules.product.query("SELECT * FROM local_volumes") == []
