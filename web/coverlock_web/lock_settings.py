"""What the page knows of a lock: its numbers, which Python alone defines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coverlock_sdk.arrays import Logits
from coverlock_sdk.calibration import MAX_CONFIDENCE
from coverlock_sdk.frames import Frame
from coverlock_sdk.hashing import octave, views
from coverlock_sdk.hashing.octave import OctaveCode
from coverlock_sdk.locking import registration, verdict
from coverlock_sdk.locking.keys import PUBLIC_SECRET
from coverlock_sdk.locking.lock import FAINT, PROMISING, Lock
from coverlock_sdk.locking.secret_rotations import code_map
from coverlock_sdk.locking.statistics import MAX_WEIGHT

OCTAVE = {
    "side": views.SIDE,
    "octaves": octave.OCTAVES,
    "colours": octave.COLOURS,
    "opponent": views.OPPONENT.tolist(),
    "taper": views.TAPER,
}
"""What the page computes the hash ``octave`` by, besides its matrices."""


def lock_settings(lock: Lock) -> dict[str, Any]:
    """The settings of a lock without a key, as JSON values."""
    assert lock.hash is not None
    floors, bands = lock.floors, len(lock.hash.bands)
    counts = [len(range(band, lock.bits, bands)) for band in range(bands)]
    return {
        "bits": lock.bits,
        "payloadBits": lock.payload_bits,
        "decoder": vars(lock.decoder),
        "hash": {"bands": lock.hash.bands, "calibration": vars(lock.hash.calibration)},
        "publicKey": PUBLIC_SECRET.decode(),
        "maxConfidence": MAX_CONFIDENCE,
        "maxWeight": MAX_WEIGHT,
        "faint": FAINT,
        "promising": PROMISING,
        "fpr": lock.fpr,
        "floors": {
            "forger": floors.forger,
            "odds": floors.odds,
            "bandForger": floors.band_forger,
            "bandOdds": [floors.odds_in_band(count) for count in counts],
            "steps": verdict.STEPS,
        },
        "octave": OCTAVE if isinstance(lock.hash, OctaveCode) else None,
        "registration": registration_settings(),
        "matrices": [matrix.shape for matrix in _matrices(lock)],
    }


def lock_numbers(lock: Lock) -> bytes:
    """The public map of a lock and the whitening of its hash, in single precision."""
    return b"".join(matrix.astype("<f4").tobytes() for matrix in _matrices(lock))


def registration_settings() -> dict[str, Any]:
    """Where frames are searched, and what each of them weighs."""
    return {
        "step": registration.STEP,
        "leastSide": registration.LEAST_SIDE,
        "coarse": registration.COARSE,
        "sides": registration.SIDES,
        "turnedCells": registration.TURNS * registration.TURNED_PLACES,
        "weights": {
            "whole": registration.WHOLE_WEIGHT,
            "popular": registration.POPULAR_WEIGHT,
            "centred": registration.CENTRED_WEIGHT,
            "turned": registration.TURNED_WEIGHT,
            "anywhere": registration.ANYWHERE_WEIGHT,
        },
        "popular": [frame.side for frame in registration.POPULAR],
        "families": [_family(family) for family in registration.families()],
        "stages": {name: stage._asdict() for name, stage in STAGES.items()},
        "wider": registration.WIDER.tolist(),
        "left": registration.LEFT,
        "leftTurned": registration.LEFT_TURNED,
    }


STAGES = {"low": registration.LOW, "middle": registration.MIDDLE, "fine": registration.FINE}


def _family(family: registration.Family) -> dict[str, Any]:
    """A family of frames of a square picture; the page makes its turns fit other proportions."""
    [stage] = [name for name, stage in STAGES.items() if stage == family.stage]
    return {
        "frames": [_named(row) for row in family.frames.tolist()],
        "weight": family.weight,
        "stage": stage,
        "begin": family.begin,
        "kept": family.kept,
        "reach": _named(family.reach),
    }


def _named(numbers: Sequence[float]) -> dict[str, float]:
    """Numbers by what they are of a frame, the first ones first."""
    return dict(zip(Frame._fields, numbers, strict=False))


def _matrices(lock: Lock) -> list[Logits]:
    """Per band the directions (bits, dimensions) of the public map, then (dimensions, features)."""
    assert lock.hash is not None
    public = code_map(None, "", lock.bits, lock.hash.bands)
    directions = [public.band_directions(band, [0])[0] for band in range(len(public.bands))]
    whitening = lock.hash.whitening if isinstance(lock.hash, OctaveCode) else []
    return [matrix.T for matrix in (*directions, *whitening)]
