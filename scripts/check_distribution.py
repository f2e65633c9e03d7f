"""Refuse a wheel or sdist that holds what it should not, or lacks what it needs.

python scripts/check_distribution.py dist/
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

MOST_MEGABYTES = 25
NEEDED = (
    "coverlock_sdk/py.typed",
    "coverlock_sdk/hashing/weights/octave.safetensors",
    "coverlock_sdk/hashing/weights/octave.json",
    "coverlock_plugins/mbrs/weights/mbrs.safetensors",
    "coverlock_bench/auditing/templates/",
    "coverlock_bench/preference/small.safetensors",
    "coverlock_web/page/index.html",
)
FORBIDDEN = ("experiments/", "tests/", "examples/", "bench/results", ".github", "key.json")
PACKAGES = (
    "coverlock_sdk",
    "coverlock_plugins",
    "coverlock_export",
    "coverlock_bench",
    "coverlock_training",
    "coverlock_web",
)


def faults_of_wheel(wheel: Path) -> list[str]:
    """What is wrong with a wheel, in sentences."""
    names = zipfile.ZipFile(wheel).namelist()
    faults = [f"{wheel.name} lacks {n}" for n in NEEDED if not any(n in name for name in names)]
    faults += [
        f"{wheel.name} holds {name}"
        for name in names
        if any(name.startswith(part) or f"/{part}" in name for part in FORBIDDEN)
    ]
    strangers = {name.split("/")[0] for name in names} - set(PACKAGES)
    faults += [
        f"{wheel.name} installs {name} at the top" for name in strangers if "dist-info" not in name
    ]
    megabytes = wheel.stat().st_size / 1e6
    if megabytes > MOST_MEGABYTES:
        faults.append(f"{wheel.name} has {megabytes:.1f} MB, more than {MOST_MEGABYTES}")
    return faults


def faults_of_sdist(sdist: Path) -> list[str]:
    """What is wrong with a source distribution, in sentences."""
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    wanted = ("pyproject.toml", "LICENSE", "README.md")
    return [f"{sdist.name} lacks {name}" for name in wanted if name not in names]


def main(folder: Path) -> int:
    """Check every distribution in ``folder``; the number of faults is the exit code, at most 1."""
    wheels, sdists = list(folder.glob("*.whl")), list(folder.glob("*.tar.gz"))
    faults = [] if wheels and sdists else [f"{folder} holds no wheel or no sdist"]
    faults += [fault for wheel in wheels for fault in faults_of_wheel(wheel)]
    faults += [fault for sdist in sdists for fault in faults_of_sdist(sdist)]
    for fault in faults:
        print(fault, file=sys.stderr)
    for wheel in wheels:
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
    return min(len(faults), 1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
