"""Every error that the SDK raises on purpose, in one family.

A message is one sentence that names the wrong value and the way out. The command line prints it
without a traceback and exits with code 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class CoverLockError(Exception):
    """The base class: catch it to catch everything that the SDK raises on purpose."""


class PictureError(CoverLockError):
    """A picture cannot be read, cannot be written, or cannot carry a mark."""


class MessageError(CoverLockError):
    """A message has the wrong length or values, or is too short for what is asked of it."""


class KeyringError(CoverLockError):
    """A key is missing, malformed, readable by others, or not the one that is needed."""


class RegistryError(CoverLockError):
    """The file of a registry cannot be used."""


class UnknownNameError(CoverLockError):
    """Nothing is registered under the name that was asked for."""


class PluginError(CoverLockError):
    """A plugin broke its contract: it raised, or returned something of the wrong shape."""


class MissingModelError(CoverLockError):
    """Weights or an optional package are not on this machine; the message says how to get them."""


class CorruptModelError(CoverLockError):
    """A weight file is truncated, altered, or not the file it claims to be."""


class EngineError(CoverLockError):
    """A graph cannot be compiled, or an engine cannot run on this machine."""


class BundleError(CoverLockError):
    """A deployable bundle is incomplete, altered, unsigned, or made by a newer version."""


class RuntimeUnavailableError(CoverLockError):
    """A runtime cannot run a bundle on this machine; the message says why."""


class OverloadedError(CoverLockError):
    """Too many pictures are waiting for a verifier; try again later."""


class LossyFormatWarning(UserWarning):
    """A marked picture was saved in a lossy format; the message says what that cost."""


class WeakMarkWarning(UserWarning):
    """A marked picture would not be accepted by verification as it stands."""


class LimitedWatermarkWarning(UserWarning):
    """A watermark cannot do something that is expected of watermarks; the message says what."""


class LookalikeWarning(UserWarning):
    """A picture is much like one that was marked before, so a forgery between them may pass."""


class UnregisteredWarning(UserWarning):
    """The hash cannot register: crops and turns are not searched for."""


class UntrustedBundleWarning(UserWarning):
    """A bundle was opened, and nobody checked who made it."""


class DepthWarning(UserWarning):
    """A picture was read at fewer bits per channel than its file holds."""


def install(extras: str) -> str:
    """The command that installs the packages of some of our extras."""
    return f"pip install 'coverlock-sdk[{extras}]'"


@contextmanager
def needs(
    purpose: str,
    package: str | None,
    extras: str,
    kind: type[CoverLockError] = MissingModelError,
) -> Iterator[None]:
    """Say what to install when an import within fails: ``with needs("SSIM", "SciPy", "bench")``.

    Without a ``package`` the sentence names the one that Python could not find.
    """
    try:
        yield
    except ImportError as error:
        package = f"{package} ({error})" if package else f"the package '{error.name}'"
        raise kind(f"{purpose} needs {package}: {install(extras)}") from error
