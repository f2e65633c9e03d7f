"""The first that a request meets: who sends it, and whether they may ask now.

Floods are refused here, for a fraction of the time that it takes to find a route.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request

from coverlock_sdk.serving.admission import Stay
from coverlock_sdk.serving.refusals import RefusalError
from coverlock_sdk.serving.request_log import App, Message, Receive, Send
from coverlock_sdk.serving.tracing import request_span

if TYPE_CHECKING:
    from coverlock_sdk.serving.service import Service


class Gate:
    """ASGI middleware that lets through what comes from a known caller within their limits."""

    def __init__(self, app: App, service: Service) -> None:
        self.app = app
        self.service = service

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request with a body on, or refuse it; all others are passed on."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        try:
            caller = request.state.caller = self.service.admitted(request)
            stay = Stay(caller.name if caller else None)
            if not stay.take(self.service.requests):
                raise RefusalError(503, "too many requests of one caller at once", 1)
        except RefusalError as refusal:
            answer = await self.service.refuse(request, refusal)
            await answer(scope, receive, send)
            return
        known = {
            "coverlock.caller": caller.name if caller else None,
            "coverlock.request": request.state.request_id,
        }
        try:
            with request_span(scope, send, **known) as observed:
                await self.app(scope, receive, observed)
        finally:
            stay.leave()
