"""The queries on images that nodes pulled, on every database."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.services.rows import MINUTE, NOW, container, put
from zun.domain.node_image import NodeImage
from zun.store import images, node_images
from zun.store.database import Database

APP = NodeImage("h", "docker", "registry.example.org/team/app:1", "sha256:a", NOW, NOW)


async def test_an_image_is_noted_once_whoever_does_it(db: Database) -> None:
    later = replace(APP, image_id="sha256:b", used_at=NOW + MINUTE)

    async def note(one: NodeImage) -> None:
        await db.run(lambda connection: node_images.put(connection, one))

    await asyncio.gather(*(note(APP) for _ in range(5)), note(replace(APP, host="other")))
    await note(later)
    long = replace(APP, reference=("ä" * node_images.LONGEST), image_id="sha256:c")
    await note(long)
    async with db.read() as connection:
        assert await node_images.of_host(connection, "h") == [later, long]
        assert await node_images.get(connection, "h", APP.reference) == later
        assert await node_images.get(connection, "other", APP.reference) == replace(APP, host="other")
        assert await node_images.get(connection, "h", APP.reference.upper()) is None


async def test_use_is_noted_by_id_and_what_is_forgotten_is_gone(db: Database) -> None:
    two = replace(APP, reference="two:1", image_id="sha256:2")
    async with db.write() as connection:
        for one in (APP, two, replace(APP, host="other")):
            await node_images.put(connection, one)
        await node_images.used(connection, "h", [], NOW + MINUTE)
        ids = ["sha256:a", *(f"sha256:x{number}" for number in range(1200))]
        await node_images.used(connection, "h", ids, NOW + MINUTE)
        assert await node_images.of_host(connection, "h") == [replace(APP, used_at=NOW + MINUTE), two]
        assert await node_images.of_host(connection, "other") == [replace(APP, host="other")]
        for _ in range(2):
            await node_images.forget(connection, "h", APP.reference)
        assert await node_images.of_host(connection, "h") == [two]


async def test_what_containers_and_administrators_need(db: Database) -> None:
    await put(
        db,
        container("one", host="h", image="team/app", engine_image="sha256:1"),
        container("two", host="h", image="registry:5000/team/app"),
        container("three", host="h", image="app@sha256:" + "0" * 64, engine_image="sha256:1"),
        container("four", host="h", image="by name", image_driver="glance", image_uuid="f" * 36),
        container("five", host="other", image="elsewhere:1", engine_image="sha256:5"),
        container("six", image="nowhere:1"),
    )
    values = {"project_id": "p", "user_id": "u", "image_driver": "docker", "created_at": NOW}
    async with db.write() as connection:
        for number, (host, repo, tag, image_id) in enumerate(
            [("h", "kept", "1", "sha256:k"), ("h", "coming", "", None), ("other", "no", "1", "sha256:n"),
             ("h", "pinned", "sha256:" + "1" * 64, None)]
        ):  # fmt: skip
            row = {"uuid": f"{number:036}", "host": host, "repo": repo, "tag": tag, "image_id": image_id}
            await images.insert(connection, row | values)
    async with db.read() as connection:
        needed = await node_images.needed(connection, "h")
    assert needed.ids == {"sha256:1", "sha256:k"}
    assert needed.names == {
        "team/app:latest",
        "registry:5000/team/app:latest",
        "app@sha256:" + "0" * 64,
        f"glance.invalid/{'f' * 36}:latest",
        "kept:1",
        "coming:latest",
        "pinned@sha256:" + "1" * 64,
    }
