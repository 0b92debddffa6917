"""docs/howto/healing.md, step by step, on real Docker."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.cloud import Cloud
from tests.support.page import Block, Operator, blocks, shape
from tests.support.product import Product
from tests.support.registry import Registry
from tests.support.wait import wait_until

SYNC_SECONDS = 2


def test_an_ill_container_and_a_lost_one_come_back(make_product: Callable[[], Product], registry: Registry) -> None:
    product = make_product()
    product.conf(
        docker={"default_registry": registry.address},
        DEFAULT={"sync_container_state_interval": str(SYNC_SECONDS)},
        compute={"heal_attempts": "1"},
    )
    cloud = Cloud(product.start(), "busybox")
    operator = Operator(product)
    steps = iter(blocks("healing.md"))

    def run() -> str:
        """The next block's commands; what the last one says."""
        return [operator.run(command) for command in next(steps).commands(UUID=uuid)][-1]

    def rebuilt(times: int) -> None:
        wait_until(lambda: _actions(cloud, uuid).count("rebuild") == times, 120, f"it was rebuilt {times} times")
        cloud.wait(uuid, "Running")

    uuid = ""
    run()
    [row] = cloud.get("/containers")["containers"]
    uuid = cloud.begun(cloud.wait(row["uuid"], "Running")["uuid"], "httpd -f -h /tmp")
    ill = next(steps)
    _do(operator, ill)
    rebuilt(1)
    cloud.begun(uuid, "httpd -f -h /tmp")
    listing, page = (operator.run(command) for command in next(steps).commands())
    assert page.strip() == "well"
    assert shape(listing) == shape(next(steps).text)
    _do(operator, ill)
    wait_until(lambda: (cloud.show(uuid) or {})["status_reason"], 60, "it is told")
    shown = run()
    assert sorted(shown.splitlines()) == sorted(next(steps).text.splitlines())
    run()
    wait_until(lambda: (cloud.show(uuid) or {})["status_reason"] is None, 60, "it is taken back")
    run()
    rebuilt(2)
    assert run().count("rebuild") == 2
    assert next(steps, None) is None, "the page has a step more"
    product.clear()


def _do(operator: Operator, block: Block) -> None:
    for command in block.commands():
        operator.run(command)


def _actions(cloud: Cloud, uuid: str) -> list[str]:
    return [action["action"] for action in cloud.actions(uuid) if action["message"] != "Error"]
