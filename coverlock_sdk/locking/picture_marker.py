"""The marking interface that ``wrap`` results and ``Embedder`` share."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from coverlock_sdk.errors import (
    LookalikeWarning,
    LossyFormatWarning,
    PictureError,
    WeakMarkWarning,
)
from coverlock_sdk.images.codecs import (
    LOSSLESS_SUFFIXES,
    default_output,
    encode_image,
    save_image,
    write_file,
)
from coverlock_sdk.images.conversion import Given, is_path, opened, read
from coverlock_sdk.images.picture import MAX_PIXELS
from coverlock_sdk.locking.embedding import Binder, Marked
from coverlock_sdk.locking.verdict import Verdict


class PictureMarker:
    """Marks pictures, each with a message that is locked to it."""

    binder: Binder
    max_pixels: int = MAX_PIXELS

    def embed(self, pictures: Any, messages: Any, out: str | Path | None = None) -> Any:
        """Return ``pictures`` with ``messages`` in them, each as the kind that was passed in.

        A message is an array of bits, or a string: an identifier, whose codeword is embedded.
        A path gives a path: the marked picture is written to ``out``, or beside the original as
        ``NAME.marked.png``. A picture whose mark would not verify is returned with a warning, or
        refused if no setting would help.
        """
        if is_path(pictures):
            return self.mark_file(pictures, messages, out).picture
        if out is not None:
            raise PictureError("'out' names the file for a picture that is given as a path")
        given = Given(pictures, self.max_pixels)
        outputs = _outputs(given)
        kinds = [opened(item, self.max_pixels) for item in given.items]
        messages = self.binder.lock.messages(messages, len(given))
        marked = self.binder.bind([picture for picture, _ in kinds], messages)
        for result in marked:
            _require_a_mark(result)
        values = []
        for (_, restore), result, output in zip(kinds, marked, outputs, strict=True):
            value = restore(result.picture)
            values.append(save_image(value, output) if output else value)
        return given.collected(values)

    def mark(self, picture: Any, message: Any) -> Marked:
        """Embed into one picture and report on it."""
        if is_path(picture):
            return self.mark_file(picture, message)
        original, restore = opened(picture, self.max_pixels)
        [marked] = self.binder.bind([original], self.binder.lock.messages(message, 1))
        return replace(marked, picture=restore(marked.picture))

    def mark_file(self, source: str | Path, message: Any, out: str | Path | None = None) -> Marked:
        """Embed into a picture file, write the result, and report on it.

        For a lossy format, the report is about the picture that was read back, and a warning says
        what compression cost.
        """
        source = Path(source)
        target = Path(out) if out is not None else default_output(source)
        if target.exists() and source.exists() and target.samefile(source):
            raise PictureError(f"{target} is the original: choose another name for the output")
        content, marked = self.mark_content(source, message, target.suffix, name=target.name)
        _require_a_mark(marked)
        write_file(target, content)
        return replace(marked, picture=target)

    def mark_content(
        self,
        picture: Any,
        message: Any,
        suffix: str,
        quality: int | None = None,
        name: str = "the picture",
    ) -> tuple[bytes, Marked]:
        """Embed into a picture file, given as a path or as bytes: the new file, and the report."""
        lock = self.binder.lock
        original, restore = opened(picture, self.max_pixels)
        [message] = lock.messages(message, 1)
        [marked] = self.binder.bind([original], [message])
        content = encode_image(restore(marked.picture), suffix, quality)
        if suffix.lower() in LOSSLESS_SUFFIXES:
            return content, marked
        compressed, before = read(content, self.max_pixels), marked.verdict
        [decoded], [description] = self.binder.logits([compressed])
        terms = lock.terms(message, lock.keys[0])
        verdict = lock.own_verdict(decoded, description, terms, marked.salt)
        if verdict.matches < before.matches:
            warnings.warn(
                f"{name} is a lossy file: {verdict.matches} of {verdict.bits} bits survive in it, "
                f"{before.matches} would in a .png (p-value {verdict.p_value:.2g} instead of "
                f"{before.p_value:.2g})",
                LossyFormatWarning,
                stacklevel=4,
            )
        return content, replace(marked, verdict=verdict, psnr=original.psnr(compressed))

    def carried(self, picture: Any, message: Any) -> Verdict:
        """The verdict on a picture that may have been marked with ``message``."""
        logits = self.binder.logits([read(picture, self.max_pixels)])
        return self.binder.lock.verify(*logits, message)[0]


def _outputs(given: Given) -> list[Path | None]:
    """Where to write marked files; refuses to write two to the same place."""
    outputs = [default_output(Path(path)) if path else None for path in given.paths]
    for path, count in Counter(filter(None, outputs)).items():
        if count > 1:
            raise PictureError(f"{count} pictures would all be written to {path}: embed one by one")
    return outputs


def _require_a_mark(marked: Marked) -> None:
    """Refuse a picture that cannot carry a mark; warn about weak marks and lookalikes."""
    if marked.is_faint:
        raise PictureError(
            "the picture is nearly empty, so anything could pass for it and verification would "
            "refuse it: use a picture with more to see"
        )
    verdict = marked.verdict
    if not verdict.accepted and marked.picture.is_grey:
        raise PictureError(
            f"{verdict.matches} of {verdict.bits} bits come back from this grey picture: the "
            "watermark writes in colour, so convert the picture to RGB and mark that"
        )
    if not verdict.accepted:
        warnings.warn(
            f"the marked picture would not be accepted ({verdict.matches} of {verdict.bits} bits, "
            f"p = {verdict.p_value:.2g}): use a picture with more texture, a larger size, a lower "
            "PSNR, or a watermark that carries it better",
            WeakMarkWarning,
            stacklevel=4,
        )
    elif marked.alike:
        name, share = marked.alike
        warnings.warn(
            f"the picture is much like one that was marked as '{name}' ({share:.0%} of their codes "
            "agree): a forgery between the two might pass",
            LookalikeWarning,
            stacklevel=4,
        )
