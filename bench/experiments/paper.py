"""The paper's own figures, to stand beside ours where the system is the same: tables 2 and 4."""

from __future__ import annotations

_RT_COLUMNS = ("bit_accuracy", "psnr", "1", "10", "100", "1000")

RT: dict[str, dict[str, float]] = {
    name: dict(zip(_RT_COLUMNS, row, strict=True))
    for name, row in {
        "hidden": (0.924, 33.85, 0.374, 0.301, 0.275, 0.275),
        "cin": (1.000, 41.55, 1.000, 1.000, 1.000, 1.000),
        "mbrs": (1.000, 41.61, 0.940, 0.955, 0.982, 0.982),
        "rivagan": (0.919, 42.05, 0.081, 0.088, 0.082, 0.085),
        "vine": (1.000, 35.47, 0.964, 0.981, 0.986, 0.985),
    }.items()
}
"""Table 4."""

DEFENSES = ("convnext", "mhdw", "coverlock")
ATTACKS = ("gt", "averaging", "wmforger")

_ASR: dict[str, dict[str, tuple[float, ...]]] = {
    "cin": {
        "coco": (24.12, 0.01, 0.00, 36.16, 2.17, 0.00, 86.09, 0.00, 0.00),
        "imagenet": (29.36, 0.00, 0.03, 36.37, 3.19, 0.00, 86.93, 0.00, 0.00),
        "div2k": (18.72, 0.00, 0.00, 29.94, 4.72, 0.11, 78.56, 0.00, 0.00),
    },
    "mbrs": {
        "coco": (2.41, 11.37, 0.11, 2.37, 46.14, 0.00, 96.28, 4.76, 0.06),
        "imagenet": (1.01, 10.81, 0.82, 2.96, 49.57, 0.00, 91.78, 3.68, 0.17),
        "div2k": (0.83, 17.33, 0.83, 2.44, 55.11, 0.00, 87.17, 5.44, 0.28),
    },
    "vine": {
        "coco": (14.44, 1.16, 0.00, 4.39, 28.02, 0.00, 22.34, 0.06, 0.00),
        "imagenet": (14.52, 0.49, 0.11, 9.32, 29.22, 0.02, 25.66, 0.06, 0.01),
        "div2k": (4.61, 1.56, 0.28, 4.00, 23.06, 0.00, 13.61, 0.06, 0.00),
    },
}


def asr(watermark: str, dataset: str, attack: str, defense: str) -> float | None:
    """A cell of table 2 in percent, where the paper has it."""
    folder = dataset.lower()
    row = next((v for k, v in _ASR.get(watermark, {}).items() if folder.startswith(k)), None)
    if row is None or attack not in ATTACKS or defense not in DEFENSES:
        return None
    return row[3 * ATTACKS.index(attack) + DEFENSES.index(defense)]
