"""C2PA 2.4's Soft Binding Resolution API: finds manifests by soft binding or by picture.

It only looks up manifests; ``coverlock c2pa sign`` stores them, never over HTTP. A picture matches
only if all soft bindings do. A picture unlike every signed one is not verified at all, so
answers tell a forger nothing about the lock. Manifests by unknown signers are not found. The API's
parameters that make no difference here are ignored.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, FastAPI, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from coverlock_plugins.content_credentials import ProvenanceError
from coverlock_plugins.content_credentials.credentials import trust_anchors
from coverlock_plugins.content_credentials.manifests import STORE_TYPE
from coverlock_plugins.content_credentials.repository import ManifestRepository
from coverlock_plugins.content_credentials.resolving import Resolver
from coverlock_plugins.content_credentials.soft_bindings import decoded
from coverlock_plugins.service.deployment import Deployment
from coverlock_plugins.service.refusals import REFUSALS, Problem, RefusalError
from coverlock_plugins.service.service import Upload

if TYPE_CHECKING:
    from coverlock_plugins.service.service import Service

logger = logging.getLogger(__name__)

LONGEST_VALUE = 4096
"""Characters of a soft binding in base64, and of names; ours have far fewer."""

MOST_RESULTS = 100
NOT_PICTURES = ("audio", "model", "text", "video")
"""Kinds of assets in the API that this service does not support."""

MaxResults = Annotated[
    int, Query(alias="maxResults", ge=1, description="Largest number of matches.")
]


class SoftBindingQuery(BaseModel):
    """A soft binding to look up."""

    alg: str = Field(description="A name from C2PA's list of soft-binding algorithms.")
    value: str = Field(description="The value in base64.")


class QueryMatch(BaseModel):
    """A manifest that matches."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)
    manifest_id: str
    similarity_score: int = Field(ge=0, le=100)


class QueryResult(BaseModel):
    """All manifests that match, the most similar first."""

    matches: list[QueryMatch]


class ResolutionRoutes:
    """The routes of the API, for the manifests of one repository."""

    def __init__(self, repository: Path, trust: Path) -> None:
        self.repository, self.trust = repository, trust
        self._opened: tuple[Deployment, Resolver] | None = None

    def resolver(self, deployment: Deployment) -> Resolver:
        """Finds manifests with the verifier of a deployment; a reload brings a new one."""
        if self._opened is None or self._opened[0] is not deployment:
            repository, trust = ManifestRepository(self.repository), trust_anchors(self.trust)
            self._opened = (deployment, Resolver(repository, [deployment.verifier], trust))
        return self._opened[1]

    def add_to(self, app: FastAPI, service: Service) -> None:
        """Add the routes, if the repository can be searched."""
        self.service = service
        self._warn_of_others()
        guarded: dict[str, Any] = {
            "dependencies": [Depends(service.allow("resolve"))],
            "tags": ["resolution"],
        }
        refusals = {**REFUSALS, 415: {"model": Problem, "description": "Not a picture"}}
        matched: dict[str, Any] = {**guarded, "responses": refusals}
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
            "/manifests/{manifest_id}",
            operation_id="getManifestById",
            response_class=Response,
            responses={
                **REFUSALS,
                200: {"description": "The manifest store", "content": {STORE_TYPE: store}},
                404: {"model": Problem, "description": "No manifest has this ID"},
            },
            **guarded,
        )(self.manifest)
        app.get(
            "/services/supportedAlgorithms",
            operation_id="getSupportedBindings",
            tags=["resolution"],
        )(self.algorithms)

    def by_binding(
        self,
        alg: Annotated[str, Query(description="A name from C2PA's list of algorithms.")],
        value: Annotated[str, Query(description="The value in base64.")],
        max_results: MaxResults = 10,
    ) -> QueryResult:
        """Find manifests by the value of a soft binding."""
        return self._looked_up(alg, value, max_results)

    async def by_large_binding(self, request: Request, max_results: MaxResults = 10) -> QueryResult:
        """Find manifests by the value of a soft binding that is too long for an address."""

        def work(deployment: Deployment, upload: Upload) -> QueryResult:
            try:
                asked = SoftBindingQuery.model_validate_json(upload.content)
            except ValidationError:
                raise RefusalError(400, "send a JSON object with 'alg' and 'value'") from None
            return self._looked_up(asked.alg, asked.value, max_results)

        return await self.service.process(request, work)

    async def by_content(
        self,
        request: Request,
        alg: Annotated[
            str | None, Query(description="A supported algorithm; all are checked anyway.")
        ] = None,
        max_results: MaxResults = 10,
    ) -> QueryResult:
        """Find the manifest of a picture, all of whose soft bindings must match."""
        if alg is not None and not any(alg in names for names in self._now.algorithms):
            raise RefusalError(400, f"'{alg[:80]}' cannot be looked up here")
        kind = request.headers.get("content-type", "").partition("/")[0].strip().lower()
        if kind in NOT_PICTURES:
            raise RefusalError(415, f"only pictures can be looked up here, not {kind}")

        def work(deployment: Deployment, upload: Upload) -> list[tuple[str, float]]:
            size = deployment.verifier.bundle.manifest.size
            picture = upload.picture(size)
            with self.service.turn(upload):
                match = self.resolver(deployment).match(picture)
            return [(match.manifest.id, match.similarity)] if match else []

        async with self.service.budgets.asking(request.state.caller, None) as rejected:
            found = await self.service.process(request, work)
            if not found:
                await rejected()
        return _matches(found, max_results)

    def manifest(self, manifest_id: str) -> Response:
        """The manifest store of a manifest."""

        entry = self._now.repository.entry("manifest", manifest_id)
        if entry is None or not self._now.manifest(entry).trusted:
            raise RefusalError(404, "there is no such manifest here")
        return Response(self._now.repository.content(entry), media_type=STORE_TYPE)

    def algorithms(self) -> dict[str, list[dict[str, str]]]:
        """The soft-binding algorithms that can be looked up here."""
        kinds = zip(("watermarks", "fingerprints"), self._now.algorithms, strict=True)
        return {kind: [{"alg": name} for name in names] for kind, names in kinds}

    @property
    def _now(self) -> Resolver:
        return self.resolver(self.service.deployment)

    def _warn_of_others(self) -> None:
        """Warn about manifests whose pictures the bundle does not verify."""
        own = {(each.watermark_name, each.hash_name) for each in self._now.verifiers}
        kinds = {(look.watermark, look.hash) for look in self._now.repository.looks()}
        for watermark, hash in sorted(kinds - own):
            logger.warning(
                "pictures marked by %s with %s are not found: the bundle does not verify them",
                watermark,
                hash,
            )

    def _looked_up(self, algorithm: str, value: str, most: int) -> QueryResult:
        if max(len(algorithm), len(value)) > LONGEST_VALUE:
            raise RefusalError(400, f"a soft binding has at most {LONGEST_VALUE:,} characters here")
        try:
            return _matches(self._now.look_up(algorithm, decoded(value)), most)
        except ProvenanceError as error:
            raise RefusalError(400, str(error)) from None


def _matches(found: list[tuple[str, float]], most: int) -> QueryResult:
    shown = found[: min(most, MOST_RESULTS)]
    return QueryResult(
        matches=[
            QueryMatch(manifest_id=manifest, similarity_score=round(100 * likeness))
            for manifest, likeness in shown
        ]
    )


def _body(media_type: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {media_type: {"schema": schema}}}}
