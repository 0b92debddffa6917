"""docs/howto/audit.md, step by step, on real Docker: what it shows is what one sees."""

from __future__ import annotations

from collections.abc import Callable

from tests.engine.test_audit import forget
from tests.support.cloud import Cloud
from tests.support.page import Operator, blocks, shape
from tests.support.product import Product


def test_what_a_restored_database_has_forgotten_is_told_and_removed(
    make_product: Callable[[], Product], busybox: str
) -> None:
    product = make_product()
    product.conf(
        DEFAULT={"host": "node1", "sync_container_state_interval": "-1", "capsule_driver": "docker"},
        compute={"reaper_interval": "600", "orphan_grace_seconds": "3600"},
    )
    cloud = Cloud(product.start(), busybox)
    operator = Operator(product)
    kept, lost = (cloud.running(image_pull_policy="ifnotpresent")["uuid"] for _ in range(2))
    forget(product, lost)
    look, found, heal, healed, again, clean = blocks("audit.md")
    assert shape(operator.run(look.commands()[0], code=1)) == shape(found.text)
    careful, at_once = heal.commands()
    young = operator.run(careful, code=1)
    assert young.count(" young ") == 3, young
    assert cloud.engine(lost), "looking, or being asked too early, changes nothing"
    assert shape(operator.run(at_once)) == shape(healed.text)
    assert cloud.holds_nothing(lost)
    assert shape(operator.run(again.commands()[0])) == shape(clean.text)
    assert (cloud.show(kept) or {})["status"] == "Running"
