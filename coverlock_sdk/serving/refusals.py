"""Answers other than 200: what they mean, and what they tell a caller."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import TypeVar

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from coverlock_sdk.errors import CoverLockError, MessageError, OverloadedError, PictureError

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

HANG_UP = 499  # the convention for a client that left; nobody reads this answer

MEANINGS: dict[int | str, str] = {
    400: "The message is missing or malformed",
    401: "No token, or an unknown one",
    403: "The token does not allow this",
    408: "The picture did not arrive in time",
    413: "The picture file is too large",
    422: "The body is not a picture that can be verified",
    429: "More requests than the token allows; see Retry-After",
    500: "A bug of the service; its log has more",
    503: "Too busy; see Retry-After",
    504: "The verdict took too long",
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
        raise RefusalError(503, "verification failed: try again later", 5) from None


async def refuse_query(request: Request, error: Exception) -> Response:
    """Answer a query that is not of the form that the API describes."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return JSONResponse({"error": f"{first['loc'][-1]}: {first['msg']}"}, 400)
