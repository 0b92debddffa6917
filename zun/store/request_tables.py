"""Tables of requests rather than of what they made. Imported by ``tables.py`` only."""

from __future__ import annotations

import sqlalchemy as sa

from zun.store.columns import long_text, row_id, table, when

idempotency_keys = table(
    "idempotency_keys",  # what creates with an Idempotency-Key were answered
    row_id(),
    sa.Column("key_hash", sa.String(64), nullable=False, unique=True),  # SHA-256 of project, user, operation and key
    sa.Column("fingerprint", sa.String(64), nullable=False),  # SHA-256 of version, query and body
    sa.Column("owner", sa.String(36), nullable=False),  # the request at work, or that which was answered
    sa.Column("lease_until", when(), nullable=False),  # no longer than so is a request without answer believed to live
    sa.Column("resource_uuid", sa.String(36)),
    sa.Column("answer", long_text()),  # encrypted; null while the request is at work
    sa.Column("created_at", when(), nullable=False),
    sa.Column("expires_at", when(), nullable=False, index=True),
)
