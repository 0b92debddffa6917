"""Images through Docker: committed, saved, loaded, listed, searched for."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

from zun.domain.errors import EngineError, ImageFailed, ImagePullFailed
from zun.domain.image import parse_reference
from zun.runtime.archive import BadArchive
from zun.runtime.archive_stream import PIECE, renamed
from zun.runtime.base import PullProgress
from zun.runtime.docker_client import DockerClient, segment
from zun.runtime.docker_facts import LABELS
from zun.runtime.docker_streams import json_lines

_COMMIT_SECONDS = 1800.0
_SEARCH_LIMIT = "100"
_FULL = ("no space left", "disk quota exceeded")


async def commit(client: DockerClient, container: str, reference: str) -> None:
    """The marks that make a container ours are emptied: an image does not belong to a node."""
    parsed = parse_reference(reference)
    params = {"container": container, "repo": parsed.name, "tag": parsed.tag or "latest", "pause": "1"}
    body = {"Labels": dict.fromkeys(LABELS, "")}
    await client.call("POST", "commit", params=params, body=body, extra=_COMMIT_SECONDS)


async def names_of(client: DockerClient, domain: str) -> Sequence[str]:
    """Tags of images whose names begin with ``domain/``."""
    params = {"filters": json.dumps({"reference": [f"{domain}/*", f"{domain}/*/*"]})}
    rows = await client.call("GET", "images/json", params=params)
    tags = {tag for row in rows for tag in row.get("RepoTags") or ()}
    return sorted(tag for tag in tags if tag.startswith(f"{domain}/"))


async def in_use(client: DockerClient) -> frozenset[str]:
    """Of all containers there are."""
    rows = await client.call("GET", "containers/json", params={"all": "1"})
    return frozenset(row["ImageID"] for row in rows)


async def search(client: DockerClient, term: str) -> Sequence[Mapping[str, Any]]:
    """Docker's own search of the registry it prefers."""
    found: Sequence[Mapping[str, Any]] = await client.call(
        "GET", "images/search", params={"term": term, "limit": _SEARCH_LIMIT}
    )
    return found


@asynccontextmanager
async def saved(client: DockerClient, reference: str, name: str) -> AsyncIterator[AsyncIterator[bytes]]:
    """The archive of one image; see the port."""
    async with (
        client.stream("GET", f"images/{segment(reference)}/get") as content,
        aclosing(renamed(content.iter_chunked(PIECE), name)) as archive,
    ):
        yield _whole(archive)


async def _whole(archive: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    try:
        async for piece in archive:
            yield piece
    except BadArchive as error:
        raise EngineError(f"the engine's archive of the image cannot be used: {error}") from error


class _Fed:
    """What the engine is given, and why it was given no more."""

    def __init__(self, archive: AsyncGenerator[bytes, None]) -> None:
        self._archive = archive
        self.fault: Exception | None = None

    async def pieces(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._archive:
                yield piece
        except Exception as error:
            self.fault = error
            raise


async def load(
    client: DockerClient,
    reference: str,
    archive: AsyncIterable[bytes],
    progress: Callable[[PullProgress], None],
) -> None:
    """Docker unpacks the whole archive before it looks at it, so one that breaks off changes nothing."""
    async with aclosing(renamed(archive, reference)) as stream:
        fed = _Fed(stream)
        try:
            await _post(client, reference, fed, progress)
        except EngineError as error:
            fault = fed.fault
            if isinstance(fault, BadArchive):
                raise ImageFailed(f"Image cannot be loaded: {fault}.") from fault
            if fault is not None:
                raise fault from error
            raise


async def _post(client: DockerClient, reference: str, fed: _Fed, progress: Callable[[PullProgress], None]) -> None:
    headers = {"Content-Type": "application/x-tar"}
    query, body = {"quiet": "0"}, fed.pieces()
    async with (
        client.stream("POST", "images/load", params=query, headers=headers, data=body) as content,
        aclosing(json_lines(content.iter_any())) as lines,
    ):
        async for line in lines:
            if "errorDetail" in line or "error" in line:
                raise _refused(str((line.get("errorDetail") or {}).get("message") or line.get("error") or ""))
            detail = line.get("progressDetail") or {}
            status = str(line.get("status") or line.get("stream") or "").strip()
            progress(PullProgress(int(detail.get("current") or 0), int(detail.get("total") or 0), status))


def _refused(text: str) -> ImageFailed:
    if any(words in text.lower() for words in _FULL):
        return ImagePullFailed(f"Image cannot be loaded: {text.strip()}")
    return ImageFailed(f"Image cannot be loaded: {text.strip()}")
