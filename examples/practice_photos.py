"""Cut small photos out of the demo's, to try things on: python examples/practice_photos.py FOLDER

An audit needs 20 photos and an export 32; this makes 33. Use photos of your own for figures you
rely on: pieces of one photo resemble each other more than photos do.
Needs the demo's photos once: coverlock fetch photos
"""

import sys
from pathlib import Path

from PIL import Image, ImageStat

from coverlock_bench.photos import find_photos

SIDE = 160
LEAST_DEVIATION = 12
"""Of the light of a piece that is not nearly empty; a lock needs something to hold on to."""

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
count = 0
for path in find_photos(None):
    if path.stem == "hubble_deep_field":  # to a hash, one piece of starry sky is like another
        continue
    photo = Image.open(path).convert("RGB")
    lefts, tops = (range(0, edge - SIDE + 1, SIDE) for edge in photo.size)
    for number, (top, left) in enumerate((top, left) for top in tops for left in lefts):
        square = photo.crop((left, top, left + SIDE, top + SIDE))
        if ImageStat.Stat(square.convert("L")).stddev[0] < LEAST_DEVIATION:
            continue
        square.save(folder / f"{path.stem}-{number}.png")
        count += 1
print(f"{count} photos in {folder}")
