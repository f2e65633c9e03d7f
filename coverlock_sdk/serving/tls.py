"""The certificate of a service."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from coverlock_sdk.errors import AccessError


@dataclass(frozen=True)
class Certificate:
    """A certificate chain and its private key, both in PEM; they may share a file."""

    chain: Path
    key: Path

    def load(self, context: ssl.SSLContext) -> None:
        """Let new connections have it as it is now; one that cannot be used changes nothing."""
        self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))  # a chain without its key would stick
        self._load(context)

    def context(self) -> ssl.SSLContext:
        """How connections are secured."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._load(context)
        return context

    def _load(self, context: ssl.SSLContext) -> None:
        try:
            # Without a terminal nobody could type the password of an encrypted key.
            context.load_cert_chain(self.chain, self.key, password=_refuse_to_ask)
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            raise AccessError(
                f"the certificate {self.chain} with the key {self.key} cannot be used ({reason}): "
                "give a PEM file of each, and a key without a password"
            ) from None


def _refuse_to_ask() -> str:
    raise ValueError("the key is encrypted")
