"""``/identify``: which of the registered identifiers or serials a picture carries."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from coverlock_sdk.locking.identification import Identification
from coverlock_sdk.serving.deployment import Deployment
from coverlock_sdk.serving.refusals import RefusalError

if TYPE_CHECKING:
    from coverlock_sdk.serving.service import Service


class Found(BaseModel):
    """What every caller is told."""

    accepted: bool
    id: str | None


class Identifying:
    """The handler of ``/identify``."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def answer(self, request: Request) -> Response:
        """Find who a picture is from; a picture of nobody counts as rejected."""
        service, caller = self.service, request.state.caller
        asked = (caller.name if caller else None, "/identify")
        service.budget(asked, taken=0)
        source = service.source(request)

        def work(deployment: Deployment, content: bytes) -> Identification:
            if not deployment.books:
                raise RefusalError(503, "no serial is registered yet: reload the service", 60)
            digest = hashlib.sha256(content).hexdigest()
            decode = service.decoding(content, source["caller"])
            return deployment.identify(decode, {**source, "sha256": digest})

        found = await service.process(request, work)
        if not found:
            service.budget(asked, taken=1)
        service.count(request, "accepted" if found else "rejected")
        told = {"accepted": bool(found), "id": found.label}
        detailed = caller is not None and "detail" in caller.scopes
        return JSONResponse({**found.verdict.to_dict(), **told} if detailed else told)
