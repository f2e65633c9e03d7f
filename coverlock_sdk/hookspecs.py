"""Every hook of CoverLock SDK; a plugin marks the ones that it implements with ``@hookimpl``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    import click

    from coverlock_sdk.contract import AnyAttack, Defense, ImageHash, Watermark
    from coverlock_sdk.images.distortions import Distortion
    from coverlock_sdk.locking.verdict import Verdict
    from coverlock_sdk.models.assets import Fetchable

hookspec = pluggy.HookspecMarker("coverlock")
hookimpl = pluggy.HookimplMarker("coverlock")

Register = Callable[..., None]
"""``register(factory, name=None)``: the SDK calls the factory when somebody asks for its name."""


@hookspec
def register_watermarks(register: Callable[[Callable[..., Watermark]], None]) -> None:
    """Add watermarks: ``register(MyWatermark)`` makes ``wrap("my-watermark")`` work."""


@hookspec
def register_hashes(register: Callable[[Callable[..., ImageHash]], None]) -> None:
    """Add image hashes: ``register(MyHash)`` makes ``wrap(..., hash="my-hash")`` work."""


@hookspec
def register_defenses(register: Callable[[Callable[..., Defense]], None]) -> None:
    """Add defences to compare with CoverLock: ``register(MyDefense)``."""


@hookspec
def register_attacks(register: Callable[[Callable[..., AnyAttack]], None]) -> None:
    """Add forgery attacks for the audit: ``register(MyAttack)``."""


@hookspec
def register_distortions(register: Callable[[Distortion, str], None]) -> None:
    """Add picture distortions for the audit: ``register(Jpeg(20), "jpeg-20")``."""


@hookspec
def register_assets(register: Callable[[Fetchable], None]) -> None:
    """Add files that ``coverlock fetch NAME`` can download: ``register(WEIGHTS)``."""


@hookspec
def register_networks(register: Callable[[Callable[[], Any], str], None]) -> None:
    """Add networks for ``coverlock train watermark NAME``; the factory makes a ``Trainable``."""


@hookspec
def register_importers(register: Callable[[Callable[..., Path], str], None]) -> None:
    """Add converters for ``coverlock import NAME FILE...``: ``register(convert, "my-mark")``.

    A converter reads somebody else's checkpoint (weights only, never code), writes safetensors,
    and returns their path. It gets each file, and the user's options.
    """


@hookspec
def register_routes(register: Callable[[Callable[..., Any], str], None]) -> None:
    """Add routes to the service: ``register(make, "my-api")`` makes ``serve --routes my-api`` work.

    ``make`` gets the user's options, as in ``--routes my-api:folder=x``, and returns a function
    that adds routes, given the FastAPI application and a
    ``coverlock_plugins.service.service.Service``.
    """


@hookspec
def register_commands(cli: click.Group) -> None:
    """Add commands to the ``coverlock`` command line: ``@cli.command()``."""


@hookspec
def verdict_reached(verdict: Verdict, watermark: str, hash: str | None, source: Any) -> None:
    """Called after every verification, for audit logs and metrics; it never sees a key.

    Name the module with this hook in the entry-point group ``coverlock.listeners``: production
    then imports that module and nothing else of the package.

    ``hash`` is None without a lock. ``source`` is the picture's path, if it has one; in a service
    it holds the caller, the message and the digest of the file.
    """
