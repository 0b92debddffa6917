"""Archives into and out of containers, as the API asks for them: small ones in one message, larger ones in pieces."""

from __future__ import annotations

import asyncio
import base64
import codecs
import dataclasses
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from zun.compute.node import Node
from zun.compute.transfers import PIECE, Transfer, Transfers
from zun.domain.errors import EngineUnreachable, Invalid, PathRefused

Params = Mapping[str, Any]


class Archives:
    """Handlers for ``Bus.serve``; ``data`` is base64 in every message."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._transfers = Transfers(node.clock, node.conf.state_path)
        self._patience = float(node.conf.docker.default_timeout)

    async def get_archive(self, params: Params) -> dict[str, Any]:
        """``stat``, ``size`` of the archive and its first piece; ``transfer`` when there is more. With ``text`` it has
        to be UTF-8. Raises Invalid (no such path), RequestTooLarge."""
        transfer = await self._transfers.begin(self._node.conf.api.max_archive_bytes)
        kept = False
        try:
            stat = await self._fetch(transfer, params)
            first = await transfer.read(0)
            kept = transfer.size > len(first)
        finally:
            if not kept:
                self._transfers.end(transfer.ident)
        return {
            "stat": stat,
            "size": transfer.size,
            "data": base64.b64encode(first).decode(),
            "transfer": transfer.ident if kept else None,
        }

    async def _fetch(self, transfer: Transfer, params: Params) -> dict[str, Any]:
        decoder = codecs.getincrementaldecoder("utf-8")() if params.get("text") else None
        try:
            async with (
                asyncio.timeout(self._patience),
                self._node.runtime.get_archive(params["uuid"], params["path"]) as (stat, pieces),
            ):
                async for piece in pieces:
                    if decoder is not None:
                        decoder.decode(piece)
                    await transfer.append(piece)
            if decoder is not None:
                decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            raise Invalid("The archive is not text, which microversions below 1.25 need; ask with 1.25.") from error
        except PathRefused as error:
            raise Invalid(error.text) from error
        except TimeoutError as error:
            raise EngineUnreachable(f"the engine gave no archive within {self._patience:g} seconds") from error
        return dataclasses.asdict(stat)

    async def read_transfer(self, params: Params) -> str:
        """The piece from ``offset`` on."""
        transfer = self._transfers.get(params["transfer"])
        return base64.b64encode(await transfer.read(params["offset"])).decode()

    async def write_transfer(self, params: Params) -> str:
        """One piece of an archive to put, at ``offset``; ``transfer`` None begins one. Its id."""
        ident = params.get("transfer")
        limit = self._node.conf.api.max_archive_bytes
        transfer = self._transfers.get(ident) if ident else await self._transfers.begin(limit)
        try:
            await transfer.write(params["offset"], base64.b64decode(params["data"]))
        except BaseException:
            self._transfers.end(transfer.ident)
            raise
        return transfer.ident

    async def end_transfer(self, params: Params) -> None:
        """Whoever began it needs it no more."""
        self._transfers.end(params["transfer"])

    async def put_archive(self, params: Params) -> None:
        """Unpack ``data``, or what ``transfer`` has, in ``path``. Raises Invalid (path or archive refused)."""
        ident = params.get("transfer")
        whole = base64.b64decode(params.get("data") or "")
        pieces = self._transfers.get(ident).pieces() if ident else _in_pieces(whole)
        try:
            async with asyncio.timeout(self._patience), aclosing(pieces) as archive:
                await self._node.runtime.put_archive(params["uuid"], params["path"], archive)
        except PathRefused as error:
            raise Invalid(error.text) from error
        except TimeoutError as error:
            raise EngineUnreachable(f"the engine took no archive within {self._patience:g} seconds") from error
        finally:
            if ident:
                self._transfers.end(ident)

    def close(self) -> None:
        """Forget what is on its way."""
        self._transfers.close()


async def _in_pieces(content: bytes) -> AsyncGenerator[bytes, None]:
    for start in range(0, len(content), PIECE):
        yield content[start : start + PIECE]
