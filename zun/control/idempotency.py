"""Requests that are sent again: one key makes one resource, whichever process is asked, and whichever died.

A key is claimed in a transaction of its own, and its answer is written in the one that makes the resource: there is
never one without the other. A claim is a lease, renewed while the request is at work; who lost it makes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

import orjson
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.control.base import Control
from zun.control.secrets import SecretUnreadable
from zun.domain.errors import Conflict, IdempotencyKeyInUse, IdempotencyKeyReused, ZunError
from zun.store import idempotency as store

LOG = logging.getLogger(__name__)

LEASE = timedelta(seconds=15)
"""After this a request whose process died may be tried again."""
RENEW_SECONDS = 5.0
PATIENCE = 30.0
"""Seconds that a request waits for the same one, still at work, before it is refused."""


@dataclass(frozen=True, slots=True)
class Key:
    """Digests, hexadecimal: of who sends which key where, and of what was sent with it."""

    hash: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to make what the key stands for."""

    control: Control
    key: Key
    owner: str

    async def keep(self, connection: AsyncConnection, uuid: str, answer: Mapping[str, Any]) -> None:
        """Write the answer (JSON values) in the transaction that makes the resource. Raises IdempotencyKeyInUse when
        the claim was lost: that transaction must not be committed."""
        text = self.control.cipher.encrypt(orjson.dumps(dict(answer)).decode())
        expires = self.control.clock.now() + timedelta(seconds=self.control.conf.api.idempotency_key_ttl)
        if not await store.answer(connection, self.key.hash, self.owner, uuid, text, expires):
            raise IdempotencyKeyInUse


async def claim(control: Control, key: Key, stopping: asyncio.Event) -> Claim | Mapping[str, Any]:
    """The claim, or what was answered before; waits while the same request is at work.

    Raises IdempotencyKeyReused (409) when the key came with another request, IdempotencyKeyInUse (409) when that one
    does not end in time.
    """
    owner = str(uuid4())
    give_up = control.clock.monotonic() + PATIENCE
    pause = 0.05
    while True:
        found = await control.db.run(lambda connection: _claim(connection, control, key, owner))
        if found is None:
            return Claim(control, key, owner)
        if found.fingerprint != key.fingerprint:
            raise IdempotencyKeyReused
        if found.answer is not None:
            return _kept(control, found.answer)
        if stopping.is_set() or control.clock.monotonic() >= give_up:
            raise IdempotencyKeyInUse
        await control.clock.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - jitter, no secret
        pause = min(pause * 2, 1.0)


def _kept(control: Control, answer: str) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = orjson.loads(control.cipher.decrypt(answer))
    except SecretUnreadable:
        raise Conflict(
            "What the request with this Idempotency-Key was answered cannot be read: auth_encryption_key has changed."
        ) from None
    return found


async def _claim(connection: AsyncConnection, control: Control, key: Key, owner: str) -> store.Kept | None:
    now = control.clock.now()
    return await store.claim(connection, key.hash, key.fingerprint, owner, now=now, lease=LEASE)


@asynccontextmanager
async def held(claim: Claim) -> AsyncIterator[None]:
    """Around the work: the claim stays this request's, and is given up when nothing was made."""
    renewal = asyncio.create_task(_renew(claim), name="idempotency-renewal")
    try:
        yield
    except BaseException:
        await asyncio.shield(_release(claim))
        raise
    finally:
        renewal.cancel()
        await asyncio.gather(renewal, return_exceptions=True)


async def _renew(claim: Claim) -> None:
    while True:
        await claim.control.clock.sleep(RENEW_SECONDS)
        try:
            async with claim.control.db.write() as connection:
                until = claim.control.clock.now() + LEASE
                await store.renew(connection, claim.key.hash, claim.owner, until)
        except ZunError as error:
            LOG.warning("action=idempotency result=not renewed reason=%s", error.message)


async def _release(claim: Claim) -> None:
    try:
        async with claim.control.db.write() as connection:
            await store.release(connection, claim.key.hash, claim.owner)
    except ZunError as error:  # its lease ends by itself
        LOG.warning("action=idempotency result=not released reason=%s", error.message)
