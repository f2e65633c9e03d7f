"""The host that a service listens on, and where to find it."""

from __future__ import annotations

import ipaddress

EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
"""Hosts that mean every address of the machine, and the one under which it finds itself."""


def shown_address(host: str, port: int, secure: bool = False) -> str:
    """Where to open a service in a browser; 0.0.0.0 and :: are no address to open."""
    scheme = "https" if secure else "http"
    bracketed = f"[{host}]" if ":" in host else host
    if host in EVERY_ADDRESS:
        return f"{scheme}://{EVERY_ADDRESS[host]}:{port}/docs (listening on {bracketed}:{port})"
    return f"{scheme}://{bracketed}:{port}/docs"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a service on ``host``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
