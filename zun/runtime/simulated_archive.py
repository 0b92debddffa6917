"""A small archive of an image, as ``docker save`` writes it, for the engine in memory."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import AsyncIterator

from zun.runtime.base import ImageFacts


async def archive_of(facts: ImageFacts) -> AsyncIterator[bytes]:
    """One piece: the image has no layers."""
    digest = facts.image_id.partition(":")[2]
    config = json.dumps({"config": {"Cmd": list(facts.command), "Entrypoint": list(facts.entrypoint)}}).encode()
    manifest = json.dumps([{"Config": f"{digest}.json", "RepoTags": None, "Layers": []}]).encode()
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, content in ((f"{digest}.json", config), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    yield file.getvalue()
