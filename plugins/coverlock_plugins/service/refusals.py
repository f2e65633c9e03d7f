"""Answers other than 200: what they mean, and the one shape that all of them have."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from coverlock_sdk.errors import CoverLockError, MessageError, OverloadedError, PictureError

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

BUG = "the service failed: its log says why"
HANG_UP = 499  # the convention for a client that left; nobody reads this answer

MEANINGS: dict[int, str] = {
    400: "The message or another parameter is missing or malformed",
    401: "No token, or an unknown one",
    403: "The token does not allow this",
    404: "This service does not do this",
    408: "The picture did not arrive in time",
    409: "The idempotency key was used for another request",
    413: "The picture file is too large",
    422: "The body is not a picture that can be used",
    429: "More requests or rejections than allowed; see Retry-After",
    500: "A bug of the service; its log has more",
    503: "Too busy, or something that is needed is out of reach; see Retry-After",
    504: "The answer took too long; nothing was issued or recorded",
}


class Problem(BaseModel):
    """Any answer other than 200: one sentence."""

    error: str


REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": meaning} for status, meaning in MEANINGS.items()
}


class RefusalError(Exception):
    """An answer other than 200, raised as soon as it is certain."""

    def __init__(self, status: int, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {"Connection": "close"} if status in (408, 413) else {}
        if status == 401:
            self.headers["WWW-Authenticate"] = "Bearer"
        if retry_after is not None:
            self.headers["Retry-After"] = str(max(1, math.ceil(retry_after)))


def explained(work: Callable[[], Result]) -> Result:
    """What ``work`` returns; what it raises becomes the answer to a request."""
    try:
        return work()
    except PictureError as error:
        raise RefusalError(422, str(error)) from None
    except OverloadedError as error:
        raise RefusalError(503, str(error), retry_after=1) from None
    except MessageError as error:
        raise RefusalError(400, str(error)) from None
    except CoverLockError:
        logger.exception("a request failed")  # the caller is told nothing about this machine
        raise RefusalError(503, "the service failed: try again later", 5) from None
    except (RefusalError, TimeoutError):
        raise
    except Exception:
        logger.exception("a request met a bug")
        raise RefusalError(500, BUG) from None


def answer_errors(app: FastAPI) -> None:
    """Let every error of an app be answered as a ``Problem``."""

    async def refuse(request: Request, error: Any) -> Response:
        return JSONResponse({"error": str(error)}, error.status, error.headers)

    async def refuse_query(request: Request, error: Any) -> Response:
        first = error.errors()[0]
        return JSONResponse({"error": f"{first['loc'][-1]}: {first['msg']}"}, 400)

    async def refuse_route(request: Request, error: Any) -> Response:
        problem = f"{request.method} {request.url.path}: {error.detail}"
        return JSONResponse({"error": problem}, error.status_code, error.headers)

    async def fail(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": BUG}, 500, {"Connection": "close"})  # as uvicorn will

    app.exception_handler(RefusalError)(refuse)
    app.exception_handler(RequestValidationError)(refuse_query)
    app.exception_handler(HTTPException)(refuse_route)
    app.exception_handler(Exception)(fail)
