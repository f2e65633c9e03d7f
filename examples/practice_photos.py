"""Cut the demo's six photos into 44 small ones: python examples/practice_photos.py FOLDER

An audit needs 20 photos and an export 32. Use photos of your own for figures you rely on.
Needs the photos once: coverlock fetch photos
"""

import sys
from pathlib import Path

from PIL import Image

from coverlock_bench.photos import find_photos

SIDE = 192

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for path in find_photos(None):
    photo = Image.open(path).convert("RGB")
    lefts, tops = (range(0, edge - SIDE + 1, SIDE) for edge in photo.size)
    for number, (left, top) in enumerate((x, y) for y in tops for x in lefts):
        square = photo.crop((left, top, left + SIDE, top + SIDE))
        square.save(folder / f"{path.stem}-{number}.png")
print(f"{len(list(folder.glob('*.png')))} photos in {folder}")
