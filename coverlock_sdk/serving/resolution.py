"""The Soft Binding Resolution API of C2PA 2.4: from a soft binding, or a picture, to manifests.

Only the routes that look up are here: manifests are stored by ``coverlock c2pa sign``, never over
HTTP. A picture matches only where all soft bindings do. One that looks like no signed picture is
not verified at all, so answers tell a forger nothing about the lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, FastAPI, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, ValidationError

from coverlock_sdk.errors import ProvenanceError
from coverlock_sdk.provenance.manifests import STORE_TYPE
from coverlock_sdk.provenance.resolving import Resolver
from coverlock_sdk.provenance.soft_bindings import decoded
from coverlock_sdk.serving.deployment import Deployment
from coverlock_sdk.serving.refusals import RefusalError, explained

if TYPE_CHECKING:
    from coverlock_sdk.serving.service import Service

LONGEST_VALUE = 4096
"""Characters of a soft binding in base64, and of names; ours have far fewer."""

MOST_RESULTS = 100
NOT_PICTURES = ("audio", "model", "text", "video")
"""Kinds of assets that the API knows and this service does not."""

MaxResults = Annotated[int, Query(alias="maxResults", ge=1, description="Most matches wanted.")]


class SoftBindingQuery(BaseModel):
    """A soft binding to look up."""

    alg: str = Field(description="A name of C2PA's list of soft-binding algorithms.")
    value: str = Field(description="The value in base64.")


class QueryMatch(BaseModel):
    """A manifest that matches."""

    manifest_id: str = Field(alias="manifestId")
    similarity_score: int = Field(alias="similarityScore", ge=0, le=100)


class QueryResult(BaseModel):
    """All manifests that match, the most similar first."""

    matches: list[QueryMatch]


class Algorithm(BaseModel):
    """A soft-binding algorithm by its name."""

    alg: str


class AlgorithmList(BaseModel):
    """The soft-binding algorithms that can be looked up."""

    watermarks: list[Algorithm]
    fingerprints: list[Algorithm]


class Resolution:
    """The routes of the API, around a resolver."""

    def __init__(self, service: Service) -> None:
        self.service = service

    @property
    def resolver(self) -> Resolver:
        """What finds manifests now."""
        resolver = self.service.deployment.resolver
        assert resolver is not None
        return resolver

    def add_to(self, app: FastAPI, refusals: dict[int | str, Any]) -> None:
        """Add the routes to a service whose answers other than 200 are ``refusals``."""
        problem = {"model": refusals[400]["model"]}
        guarded: dict[str, Any] = {
            "dependencies": [Depends(self.service.allow("resolve"))],
            "tags": ["resolution"],
        }
        matched: dict[str, Any] = {
            **guarded,
            "response_model": QueryResult,
            "responses": {**refusals, 415: {**problem, "description": "Not a picture"}},
        }
        app.get("/matches/byBinding", operation_id="queryByBinding", **matched)(self.by_binding)
        app.post(
            "/matches/byBinding",
            operation_id="queryByLargeBinding",
            openapi_extra=_body("application/json", SoftBindingQuery.model_json_schema()),
            **matched,
        )(self.by_large_binding)
        app.post(
            "/matches/byContent",
            operation_id="uploadFile",
            openapi_extra=_body("image/*", {"type": "string", "format": "binary"}),
            **matched,
        )(self.by_content)
        store = {"schema": {"type": "string", "format": "binary"}}
        app.get(
            "/manifests/{manifestId}",
            operation_id="getManifestById",
            response_class=Response,
            responses={
                **refusals,
                200: {"description": "The manifest store", "content": {STORE_TYPE: store}},
                404: {**problem, "description": "There is no such manifest"},
            },
            **guarded,
        )(self.manifest)
        app.get(
            "/services/supportedAlgorithms",
            operation_id="getSupportedBindings",
            response_model=AlgorithmList,
            tags=["resolution"],
        )(self.algorithms)

    def by_binding(
        self,
        alg: Annotated[str, Query(description="A name of C2PA's list of algorithms.")],
        value: Annotated[str, Query(description="The value in base64.")],
        max_results: MaxResults = 10,
    ) -> Response:
        """Find manifests by the value of a soft binding."""
        return explained(lambda: self._looked_up(alg, value, max_results))

    async def by_large_binding(self, request: Request, max_results: MaxResults = 10) -> Response:
        """Find manifests by the value of a soft binding that is too long for an address."""

        def work(deployment: Deployment, content: bytes) -> Response:
            try:
                asked = SoftBindingQuery.model_validate_json(content)
            except ValidationError:
                raise RefusalError(400, "send a JSON object with 'alg' and 'value'") from None
            return self._looked_up(asked.alg, asked.value, max_results)

        return await self.service.process(request, work)

    async def by_content(
        self,
        request: Request,
        alg: Annotated[
            str | None, Query(description="One that is supported; all are checked anyway.")
        ] = None,
        max_results: MaxResults = 10,
        hint_alg: Annotated[
            str | None, Query(alias="hintAlg", description="Accepted and not needed.")
        ] = None,
        hint_value: Annotated[
            str | None, Query(alias="hintValue", description="Accepted and not needed.")
        ] = None,
    ) -> Response:
        """Find the manifest of a picture, all of whose soft bindings must match."""
        if alg is not None and not any(alg in names for names in self.resolver.algorithms):
            raise RefusalError(400, f"'{alg[:80]}' cannot be looked up here")
        kind = request.headers.get("content-type", "").partition("/")[0].strip().lower()
        if kind in NOT_PICTURES:
            raise RefusalError(415, f"only pictures can be looked up here, not {kind}")
        caller = request.state.caller.name if request.state.caller else None

        def work(deployment: Deployment, content: bytes) -> Response:
            sizes = {verifier.bundle.manifest.size for verifier in deployment.verifiers}
            size = sizes.pop() if len(sizes) == 1 else None
            assert deployment.resolver is not None
            match = deployment.resolver.match(self.service.decoding(content, caller)(size, False))
            found = [(match.manifest.id, match.likeness)] if match else []
            return _matches(found, max_results)

        return await self.service.process(request, work)

    def manifest(
        self,
        manifest_id: Annotated[str, Path(alias="manifestId")],
        active_only: Annotated[
            bool,
            Query(
                alias="returnActiveManifest",
                description="Makes no difference: the whole store is returned, which holds it.",
            ),
        ] = False,
    ) -> Response:
        """The manifest store of a manifest."""

        def work() -> bytes:
            entry = self.resolver.repository.of_manifest(manifest_id)
            if entry is None:
                raise RefusalError(404, "there is no such manifest here")
            return self.resolver.repository.content(entry)

        return Response(explained(work), media_type=STORE_TYPE)

    def algorithms(self) -> Response:
        """The soft-binding algorithms that can be looked up here."""
        watermarks, fingerprints = (
            [{"alg": name} for name in names] for names in self.resolver.algorithms
        )
        return JSONResponse({"watermarks": watermarks, "fingerprints": fingerprints})

    def _looked_up(self, algorithm: str, value: str, most: int) -> Response:
        if max(len(algorithm), len(value)) > LONGEST_VALUE:
            raise RefusalError(400, f"a soft binding has at most {LONGEST_VALUE:,} characters here")
        try:
            return _matches(self.resolver.look_up(algorithm, decoded(value)), most)
        except ProvenanceError as error:
            raise RefusalError(400, str(error)) from None


def _matches(found: list[tuple[str, float]], most: int) -> Response:
    shown = [
        {"manifestId": manifest, "similarityScore": round(100 * likeness)}
        for manifest, likeness in found[: min(most, MOST_RESULTS)]
    ]
    return JSONResponse({"matches": shown})


def _body(media_type: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {media_type: {"schema": schema}}}}
