"""Answers other than 200: what they mean, and their common shape."""

from __future__ import annotations

import logging
import math
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from limits.errors import StorageError
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from coverlock_sdk import CoverLockError
from coverlock_sdk.errors import MessageError, OverloadedError, PictureError

logger = logging.getLogger(__name__)


class Problem(BaseModel):
    """Any answer other than 200: one sentence."""

    error: str


REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem}
    for status in (400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 503, 504)
}
"""How OpenAPI describes answers; 429 and 503 have a ``Retry-After``."""


class RefusalError(Exception):
    """An answer other than 200, raised as soon as it is clear."""

    def __init__(self, status: int, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {"Connection": "close"} if status in (408, 413) else {}
        if status == 401:
            self.headers["WWW-Authenticate"] = "Bearer"
        if retry_after is not None:
            self.headers["Retry-After"] = str(max(1, math.ceil(retry_after)))


def refusal_of(error: CoverLockError | StorageError) -> RefusalError:
    """The answer to a request that failed with an ``error``."""
    if isinstance(error, PictureError):
        return RefusalError(422, str(error))
    if isinstance(error, MessageError):
        return RefusalError(400, str(error))
    if isinstance(error, OverloadedError):
        return RefusalError(503, str(error), retry_after=1)
    logger.error("a request failed", exc_info=error)  # callers learn nothing about this machine
    return RefusalError(503, "the service failed: try again later", retry_after=5)


def answer_errors(app: FastAPI) -> None:
    """Answer every error of an app with a ``Problem``."""

    async def refuse(request: Request, error: Any) -> Response:
        refusal = error if isinstance(error, RefusalError) else refusal_of(error)
        return JSONResponse({"error": str(refusal)}, refusal.status, refusal.headers)

    async def refuse_query(request: Request, error: Any) -> Response:
        first = error.errors()[0]
        return JSONResponse({"error": f"{first['loc'][-1]}: {first['msg']}"}, 400)

    async def refuse_route(request: Request, error: Any) -> Response:
        problem = f"{request.method} {request.url.path}: {error.detail}"
        return JSONResponse({"error": problem}, error.status_code, error.headers)

    async def fail(request: Request, error: Exception) -> Response:
        problem = {"error": "the service failed: its log says why"}
        return JSONResponse(problem, 500, {"Connection": "close"})  # as uvicorn will

    for kind in (RefusalError, CoverLockError, StorageError):
        app.exception_handler(kind)(refuse)
    app.exception_handler(RequestValidationError)(refuse_query)
    app.exception_handler(HTTPException)(refuse_route)
    app.exception_handler(Exception)(fail)
