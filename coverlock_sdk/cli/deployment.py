"""What the options of ``coverlock serve`` stand for, opened at its start and at each reload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.cli.opening import chosen_keyring
from coverlock_sdk.cli.resolution import open_resolver
from coverlock_sdk.embedder.embedder import Embedder
from coverlock_sdk.locking.identification import read_identifiers
from coverlock_sdk.locking.registry import Registry
from coverlock_sdk.serving.access import Callers
from coverlock_sdk.serving.deployment import Deployment
from coverlock_sdk.verifier.verifier import Verifier


@dataclass(frozen=True)
class DeploymentOptions:
    """Files and settings, as plain values that can be sent to other processes."""

    bundles: tuple[Path, ...]
    key_file: Path | None
    tokens: Path | None
    ids: Path | None
    registry: Path | None
    resolution: Path | None
    opening: Mapping[str, Any]
    """How verifiers are opened."""
    marking: Mapping[str, Any] | None
    """How the embedder is opened; None for a service that does not mark."""

    def open(self) -> Deployment:
        """Everything as the files say now."""
        keyring = chosen_keyring(self.key_file)
        callers = Callers.load(self.tokens) if self.tokens else None
        registry = Registry(self.registry) if self.registry else None
        names: Sequence[str] = read_identifiers(self.ids) if self.ids else []
        if registry is not None and not names:
            names = registry.names()
        bundles = [Bundle.given(path, self.opening["trust"]) for path in self.bundles]
        opening = {**self.opening, "trust": None, "key": keyring, "registry": registry}
        verifiers: list[Verifier] = []
        try:
            for bundle in bundles:
                fpr = bundle.manifest.fpr / len(bundles)
                verifiers.append(Verifier.open(bundle, fpr=fpr, **opening))
            deployment = Deployment(tuple(verifiers), callers)
            if names:
                deployment = deployment.register(names)
            embedder = None
            if self.marking is not None:
                marking = {"threads": self.opening["threads"], **self.marking}
                embedder = Embedder.open(bundles[0], key=keyring, registry=registry, **marking)
            resolver = open_resolver(self.resolution, verifiers) if self.resolution else None
            return replace(deployment, embedder=embedder, registry=registry, resolver=resolver)
        except BaseException:
            for verifier in verifiers:
                verifier.close()
            raise
