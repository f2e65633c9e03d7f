"""``/verify`` and ``/identify``: what they answer about a picture, and how OpenAPI describes it."""

from __future__ import annotations

from typing import Annotated, Any, get_type_hints

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, create_model

from coverlock_plugins.service.deployment import Deployment, Finding
from coverlock_plugins.service.refusals import REFUSALS, RefusalError
from coverlock_plugins.service.service import BODY, Service, Upload, named_once
from coverlock_sdk.frames import Frame
from coverlock_sdk.locking.verdict import Verdict

Identifier = Annotated[str, Query(description="Identifier of the picture.")]


class Answer(BaseModel):
    """What every caller is told."""

    accepted: bool


class Found(Answer):
    """What every caller is told who asks whose a picture is."""

    id: str | None


_FIELDS: dict[str, Any] = dict.fromkeys(Frame._fields, (float, ...))
_FRAME: Any = create_model("Frame", **_FIELDS)
_VERDICT: dict[str, Any] = {
    **{name: (hint, ...) for name, hint in get_type_hints(Verdict).items()},
    "frame": (_FRAME | None, ...),
}
DetailedAnswer: Any = create_model("DetailedAnswer", __base__=Answer, **_VERDICT)
DetailedFound: Any = create_model("DetailedFound", __base__=Found, **_VERDICT)
"""What callers with the scope ``detail`` are told: all of the verdict, whatever it has."""


def judging_routes(service: Service) -> APIRouter:
    """The routes that answer about a picture."""
    router = APIRouter()

    async def judged(request: Request, id: str | None) -> tuple[Finding, dict[str, Any]]:
        """What was found of an identifier, or of any, and the details if the caller may know."""
        source = service.source(request, id)

        def work(deployment: Deployment, upload: Upload) -> Finding:
            if id is None:
                found = deployment.identify(upload.picture)
                source["id"] = found.label
            else:
                found = deployment.verify(upload.picture, id)
            upload.deadline.commit()
            found.announce({**source, "sha256": upload.sha256})
            return found

        async with service.asking(request, id) as rejected:
            found = await service.process(request, work)
            if not found.verdict:
                await rejected()
        outcome = "accepted" if found.verdict else "rejected"
        caller = request.state.caller
        service.metrics.verdicts.labels(outcome, caller.name if caller else "").inc()
        detailed = caller is not None and "detail" in caller.scopes
        return found, found.verdict.to_dict() if detailed else {}

    @router.post(
        "/verify",
        summary="Whether a picture carries an identifier",
        response_model=DetailedAnswer | Answer,
        dependencies=[Depends(service.allow("verify"))],
        responses=REFUSALS,
        openapi_extra=BODY,
    )
    async def verify(request: Request, id: Identifier) -> Any:
        found, details = await judged(request, named_once(request))
        return {"accepted": found.verdict.accepted, **details}

    @router.post(
        "/identify",
        summary="Which of the registered identifiers a picture carries, if any",
        response_model=DetailedFound | Found,
        dependencies=[Depends(service.allow("identify"))],
        responses=REFUSALS,
        openapi_extra=BODY,
    )
    async def identify(request: Request) -> Any:
        if not service.deployment.books:
            if service.deployment.registry is not None:
                raise RefusalError(503, "no serial is registered yet: reload the service", 60)
            raise RefusalError(
                404, "this service knows no identifiers: start it with --ids or --registry"
            )
        found, details = await judged(request, None)
        return {"accepted": found.verdict.accepted, "id": found.label, **details}

    return router
