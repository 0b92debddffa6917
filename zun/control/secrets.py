"""Encryption of secrets at rest (registry passwords), with the operator's 32-character key."""

from __future__ import annotations

import base64

from cryptography.fernet import Fernet, InvalidToken

from zun.domain.errors import ZunError


class SecretUnreadable(ZunError):
    """A stored secret was encrypted with another key."""


class Cipher:
    """Fernet over ``[DEFAULT]/auth_encryption_key``: exactly 32 bytes of text."""

    def __init__(self, key: str) -> None:
        raw = key.encode()
        if len(raw) != 32:
            raise ValueError("auth_encryption_key has to be exactly 32 characters long")
        self._fernet = Fernet(base64.urlsafe_b64encode(raw))

    def encrypt(self, text: str) -> str:
        return self._fernet.encrypt(text.encode()).decode()

    def decrypt(self, token: str) -> str:
        """Raises SecretUnreadable when the key changed since."""
        try:
            return self._fernet.decrypt(token.encode()).decode()
        except InvalidToken as error:
            raise SecretUnreadable("A stored password cannot be read: auth_encryption_key has changed.") from error
