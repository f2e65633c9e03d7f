"""Fonts for drawn pictures: those of Matplotlib and Pillow, and of the system for training only.

Evaluation uses fonts that both packages bundle, so its pictures are the same on every machine.
Training adds whatever Latin text fonts the system has; none of them is ever one of evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import ImageFont

from coverlock_sdk.errors import MissingModelError

Split = Literal["training", "evaluation"]
Face = Literal["sans", "serif", "mono"]
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

PILLOW = "pillow"
"""Stands for Aileron, the font inside Pillow."""

SYSTEM = Path("/usr/share/fonts")

BUNDLED: dict[Split, dict[Face, tuple[str, ...]]] = {
    "training": {
        "sans": ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique"),
        "serif": ("DejaVuSerif-Bold", "DejaVuSerif-Italic"),
        "mono": ("DejaVuSansMono-Bold",),
    },
    "evaluation": {
        "sans": (PILLOW,),
        "serif": ("STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic"),
        "mono": ("DejaVuSansMono",),
    },
}
"""Font files of Matplotlib and Pillow by split."""

INSTALLED: dict[Face, tuple[str, ...]] = {
    "sans": (
        "LiberationSans-Regular",
        "LiberationSans-Bold",
        "LiberationSansNarrow-Regular",
        "Roboto-Regular",
        "Roboto-Light",
        "Roboto-Bold",
        "RobotoCondensed-Regular",
        "OpenSans-Regular",
        "Lato-Regular",
        "Lato-Black",
        "FreeSans",
        "Carlito-Regular",
        "Cantarell-Regular",
        "ComicNeue-Regular",
        "LeagueSpartan-Bold",
        "Quicksand-Regular",
        "Cabin-Regular",
        "NotoSans-Regular",
        "NotoSans-Bold",
    ),
    "serif": (
        "LiberationSerif-Regular",
        "FreeSerif",
        "Caladea-Regular",
        "LinLibertine_R",
        "EBGaramond12-Regular",
        "NotoSerif-Regular",
        "NotoSerif-Bold",
    ),
    "mono": ("LiberationMono-Regular", "FreeMono", "Inconsolata", "Hack-Regular"),
}
"""Font files of Debian's packages that training uses where it finds them."""


@dataclass(frozen=True)
class Fonts:
    """The font files of one split, by face."""

    files: dict[Face, tuple[str, ...]]

    def choose(self, rng: np.random.Generator, face: Face | None = None) -> str:
        """A font file of ``face``; of the proportional faces where none is named."""
        faces: tuple[Face, ...] = (face,) if face else ("sans", "sans", "serif")
        names = self.files[faces[int(rng.integers(len(faces)))]]
        return names[int(rng.integers(len(names)))]


@lru_cache(maxsize=2)
def fonts_of(split: Split) -> Fonts:
    """The fonts that pictures of ``split`` are written in."""
    files = {face: tuple(map(_bundled, names)) for face, names in BUNDLED[split].items()}
    if split == "training":
        found = {path.stem: str(path) for path in sorted(SYSTEM.rglob("*.[to]tf"))}
        for face, names in INSTALLED.items():
            files[face] += tuple(found[name] for name in names if name in found)
    return Fonts(files)


@lru_cache(maxsize=4096)
def font(file: str, size: int) -> Font:
    """The font in ``file`` at ``size`` pixels."""
    return ImageFont.load_default(size) if file == PILLOW else ImageFont.truetype(file, size)


def _bundled(name: str) -> str:
    if name == PILLOW:
        return name
    try:
        from matplotlib import get_data_path
    except ImportError as error:
        raise MissingModelError(
            "drawn pictures use Matplotlib's fonts: pip install 'coverlock-sdk[bench]'"
        ) from error
    return str(Path(get_data_path()) / "fonts" / "ttf" / f"{name}.ttf")
