"""Runs the service: event loop, signals, TLS."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import warnings
from typing import TYPE_CHECKING, Any

import uvicorn

from coverlock_sdk.errors import CoverLockError, LossyFormatWarning
from coverlock_sdk.serving.app import create_app
from coverlock_sdk.serving.connections import server_config
from coverlock_sdk.serving.listening import Listener, allow_files
from coverlock_sdk.serving.tracing import start_tracing

if TYPE_CHECKING:
    from coverlock_sdk.serving.service import Service
    from coverlock_sdk.serving.tls import Certificate

logger = logging.getLogger(__name__)

RELOAD = getattr(signal, "SIGHUP", None)


class ServiceServer(uvicorn.Server):
    """A server that reloads when it is told to (SIGHUP), and waits for no handshake for long."""

    def __init__(self, service: Service, certificate: Certificate | None = None) -> None:
        super().__init__(server_config(create_app(service), service.limits))
        self.service = service
        self.certificate = certificate
        self.config.load()
        if certificate is not None:
            self.config.ssl = certificate.context()

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to stop."""
        loop = _Loop(self.service.limits.idle_seconds)
        try:
            bound: list[socket.socket] = [
                Listener(each, self.service.limits) for each in sockets or ()
            ]
            loop.run_until_complete(self.serve(bound))
        finally:
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, also to signals if this is where they arrive."""
        await super().startup(sockets)
        if RELOAD is not None:
            with contextlib.suppress(ValueError, RuntimeError):  # not the main thread
                asyncio.get_running_loop().add_signal_handler(RELOAD, self._begin_reload)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [RELOAD])  # see Workers

    def _begin_reload(self) -> None:
        asyncio.get_running_loop().run_in_executor(None, self.reload)

    def reload(self) -> None:
        """Take in what changed in files; what cannot be used changes nothing."""
        try:
            if self.certificate is not None and self.config.ssl is not None:
                self.certificate.load(self.config.ssl)
            self.service.reload()
        except CoverLockError as error:
            logger.warning("not reloaded, the service goes on as before: %s", error)
        except Exception:
            logger.exception("not reloaded, the service goes on as before")


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that accepts connections by the methods of a ``Listener``."""

    def __init__(self, handshake_seconds: float) -> None:
        super().__init__()
        self._handshake_seconds = handshake_seconds

    async def create_server(self, *arguments: Any, **settings: Any) -> Any:
        """Listen; whoever does not finish the handshake of TLS is not waited for."""
        if settings.get("ssl") is not None:
            settings["ssl_handshake_timeout"] = self._handshake_seconds
        return await super().create_server(*arguments, **settings)


def run(
    service: Service, sockets: list[socket.socket], certificate: Certificate | None = None
) -> None:
    """Serve in this process, which is there for nothing else, until it is told to stop."""
    allow_files(service.limits)
    start_tracing()
    warnings.simplefilter("ignore", LossyFormatWarning)  # callers of /embed choose formats
    server = ServiceServer(service, certificate)
    gc.freeze()  # what is there by now stays, and need not be looked through again and again
    server.run(sockets)
