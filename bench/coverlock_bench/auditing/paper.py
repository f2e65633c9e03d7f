"""The paper's own figures, to stand beside ours where the system is the same."""

from __future__ import annotations

from typing import TypedDict


class Settings(TypedDict):
    """A row of the paper's table 1."""

    method: str
    loss: str
    discriminator: bool
    noise: bool
    architecture: str
    dataset: str
    resolution: int
    bits: int


SYSTEMS: dict[str, Settings] = {
    name: Settings(
        method=method,
        loss=loss,
        discriminator=discriminator,
        noise=True,
        architecture=architecture,
        dataset=dataset,
        resolution=resolution,
        bits=bits,
    )
    for name, method, loss, discriminator, architecture, dataset, resolution, bits in (
        ("cin", "CIN", "MSE+MSE", False, "INN", "COCO", 128, 30),
        ("vine", "VINE", "BCE+MSE+LPIPS", True, "CNN", "OpenImages", 512, 100),
        ("mbrs", "MBRS", "MSE+MSE", True, "CNN", "ImageNet", 128, 256),
        ("hidden", "HiDDeN", "MSE+MSE", True, "CNN", "COCO", 128, 30),
        ("rivagan", "RivaGAN", "BCE+Feature", True, "CNN", "Hollywood2", 256, 32),
    )
}
"""Table 1, by the name of our plugin."""

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

COUNTS = (1, 10, 100, 1000)
"""Sources of RT@s in table 4."""

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

AVERAGE_ASR = {"gt": 0.243, "averaging": 0.015, "wmforger": 0.059}
"""Table 2's last row for CoverLock, in percent."""

BIT_ACCURACY: dict[str, dict[str, tuple[float, ...]]] = {
    "cin": {
        "none": (99.98, 99.92, 100.00, 96.28, 100.00, 100.00, 99.36),
        "mhdw": (76.49, 91.08, 79.83, 82.19, 91.74, 83.20, 84.09),
        "coverlock": (93.35, 97.13, 95.58, 91.52, 97.45, 92.55, 94.60),
    },
    "mbrs": {
        "none": (69.16, 98.52, 94.13, 100.00, 99.06, 94.41, 92.55),
        "mhdw": (59.92, 88.57, 83.81, 90.30, 89.43, 76.32, 81.39),
        "coverlock": (66.43, 96.16, 91.62, 96.65, 96.75, 88.82, 89.40),
    },
    "vine": {
        "none": (99.72, 99.85, 99.94, 99.91, 99.96, 50.27, 91.61),
        "mhdw": (82.27, 93.11, 88.04, 91.62, 93.50, 50.20, 83.12),
        "coverlock": (94.08, 95.90, 95.39, 94.89, 95.98, 50.25, 87.75),
    },
}
"""Table 3, in percent: the six distortions in the paper's order, and their average."""

PARTS = ("payload", "hash")

ERRORS: dict[str, dict[str, float]] = {
    "mhdw": {"payload": 0.074, "hash": 0.146},
    "coverlock": {"payload": 0.074, "hash": 0.042},
}
"""Figure 4b: mean bit error under distortions, with DINOv2-G as CoverLock's backbone."""


def asr(watermark: str, dataset: str, attack: str, defense: str) -> float | None:
    """A cell of table 2 in percent, where the paper has it."""
    folder = dataset.lower()
    row = next((v for k, v in _ASR.get(watermark, {}).items() if folder.startswith(k)), None)
    if row is None or attack not in ATTACKS or defense not in DEFENSES:
        return None
    return row[3 * ATTACKS.index(attack) + DEFENSES.index(defense)]
