"""What a client of ``http://`` needs of TLS: nothing. By default each reads all certificates of authorities anew, which
takes longer than most requests."""

from __future__ import annotations

import ssl

PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody: ``httpx.Client(verify=PLAIN)``."""
