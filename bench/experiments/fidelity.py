"""Every figure, table, equation and appendix of the paper: where it lives, how it compares.

Our figures are read from result files, so the page cannot disagree with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from coverlock_bench.auditing import paper
from coverlock_bench.tables import Row, Table
from coverlock_sdk.loading import DEFAULT_HASH
from coverlock_sdk.locking.coverlock import DEFAULT_FPR
from coverlock_sdk.locking.statistics import hard_threshold
from experiments.forgeries import pooled_rows

Results = Mapping[str, Any]
"""The figures of result files, by the command that made them."""
Word = Literal["same", "reduced", "differs", "missing"]


@dataclass(frozen=True)
class Item:
    """One thing in the paper."""

    place: str
    what: str
    home: str
    """The file that holds it, from the root of the repository; empty where there is none."""
    command: str
    """What makes our figure; empty for what is code and no measurement."""
    ours: str | Callable[[Results], str]
    theirs: str
    word: Word
    why: str = ""
    """What a reader must know to compare: required unless the word is "same"."""


def _rt(results: Results, count: str = "100", command: str = "bench references") -> str:
    rows = {name: row["rt"] for name, row in results[command].items() if count in row["rt"]}
    return ", ".join(f"{name} {rt[count]['rt']:.3f}" for name, rt in rows.items())


def _their_rt(count: str = "100") -> str:
    return ", ".join(f"{name} {row[count]:.3f}" for name, row in paper.RT.items())


def _intervention(results: Results, *names: str) -> str:
    trained = results["bench interventions"]["trained"]
    found = []
    for name in names:
        rts = [seed["rt"]["100"]["rt"] for seed in trained[name]["seeds"].values()]
        seeds = "1 seed" if len(rts) == 1 else f"{len(rts)} seeds"
        found.append(f"{name} {fmean(rts):.2f} ({seeds})")
    return "; ".join(found)


def _correlations(results: Results) -> str:
    rows = results["bench residuals"].items()
    seen = ", ".join(f"{name} {row['correlation']:.2f}" for name, row in rows)
    return f"docs/plots/averaged-residuals.svg; correlations {seen}"


def _forgeries(results: Results) -> str:
    return ", ".join(
        f"{row['attack']} {row['soft']['successes']} of {row['soft']['trials']:,} "
        f"(at most {100 * row['soft']['high']:.3f} %)"
        for row in pooled_rows(results["bench forgeries"])
    )


def _hash_error(results: Results) -> str:
    error = results["bench hash"]["hashes"][DEFAULT_HASH]["bit_error_mean_of_six"]
    return f"{DEFAULT_HASH} {100 * error:.1f} %"


def _calibration(results: Results) -> str:
    locked = results["bench calibration"]["mbrs"]["locked without a key"]
    histogram = locked["match_histogram"]
    accepted = sum(histogram[hard_threshold(len(histogram) - 1, DEFAULT_FPR) :])
    trials = sum(histogram)
    return (
        f"{accepted} false accepts in {trials:,} ({locked['pictures']:,} photos x "
        f"{locked['messages']} messages); variance over binomial "
        f"{locked['variance_ratio']['mean']:.2f}"
    )


def _filters(results: Results) -> str:
    rows = results["bench filters"]["mbrs"].items()
    return ", ".join(
        "{} {:.1f} % ({:.1f} %)".format(
            name, *(100 * row["held_out_auc"][pictures] for pictures in ("clean", "distorted"))
        )
        for name, row in rows
    )


def _factors(results: Results) -> str:
    ranges = []
    for name, changes in results["bench training-factors"].items():
        rts = [
            seed["rt"]["100"]["rt"]
            for change in changes.values()
            for seed in change["seeds"].values()
        ]
        ranges.append(f"{name} {min(rts):.2f} to {max(rts):.2f}")
    return "; ".join(ranges)


def _in_measurements(results: Results) -> str:
    return "in docs/measurements.md"


LOSSES = "coverlock_sdk/training/hashes/losses.py"
SECURITY = "coverlock bench security"
NO_VINE = "our narrower references, and no VINE"
NARROW = (
    "our own narrower models instead of the published ones (MBRS 64 bits, not 256; RivaGAN 128 "
    "pixels, not 256; HiDDeN without discriminator)"
)
PAIRED = "RT over 20 messages in complementary pairs instead of 5"
SMALL = f"64 pixels, 16 bits, three seeds, a short schedule; {PAIRED}"

ITEMS = (
    Item(
        "section 2.2, eq. 3-4",
        "estimated residual, forgery",
        "bench/coverlock_bench/attacks/ground_truth.py",
        "",
        "as written",
        "",
        "same",
    ),
    Item(
        "section 3.1, eq. 5-7",
        "RT@s",
        "bench/coverlock_bench/rt.py",
        "coverlock bench references",
        _rt,
        _their_rt(),
        "reduced",
        f"{NARROW}; {PAIRED}",
    ),
    Item(
        "table 1",
        "systems and RT@100",
        "bench/coverlock_bench/auditing/security_tables.py",
        SECURITY,
        _in_measurements,
        "",
        "reduced",
        "VINE's weights are not public here; " + NARROW,
    ),
    Item(
        "figure 1 left",
        "residuals averaged over covers",
        "bench/coverlock_bench/auditing/signatures.py",
        "coverlock bench residuals",
        _correlations,
        "",
        "reduced",
        NO_VINE,
    ),
    Item(
        "figure 1 right",
        "what features vary with",
        "bench/coverlock_bench/auditing/signatures.py",
        SECURITY,
        _in_measurements,
        "",
        "reduced",
        NARROW,
    ),
    Item(
        "figure 2 left, table 5",
        "HiDDeN without broadcast and pooling",
        "bench/experiments/interventions.py",
        "coverlock bench interventions",
        lambda r: _intervention(r, "hidden", "hidden-without-both"),
        "0.214; 0.985",
        "reduced",
        SMALL,
    ),
    Item(
        "figure 2 left, table 5",
        "MBRS with Broadcast-GAP",
        "bench/experiments/interventions.py",
        "coverlock bench interventions",
        lambda r: _intervention(r, "mbrs", "mbrs-with-broadcast-gap"),
        "0.995; 0.098",
        "reduced",
        f"{SMALL}: the variant reads four bits in five",
    ),
    Item(
        "figure 2 left, table 5",
        "CIN with Broadcast-GAP",
        "bench/experiments/interventions.py",
        "coverlock bench interventions",
        lambda r: _intervention(r, "cin", "cin-with-broadcast-gap"),
        "1.00; 0.09",
        "reduced",
        f"{SMALL}; the original learned at half the rate",
    ),
    Item(
        "figure 2 left, table 5",
        "RivaGAN with fixed attention",
        "bench/experiments/interventions.py",
        "coverlock bench interventions",
        lambda r: _intervention(r, "rivagan", "rivagan-with-fixed-attention"),
        "0.077; 0.944",
        "reduced",
        f"64 pixels, three seeds, a short schedule; {PAIRED}",
    ),
    Item(
        "figure 2 right",
        "accuracy against images seen",
        "bench/experiments/intervention_picture.py",
        "coverlock bench interventions --picture",
        "docs/interventions.png",
        "",
        "reduced",
        "short trainings at 64 pixels",
    ),
    Item(
        "section 4, figure 3, eq. 8-13",
        "XOR, head, orthogonal projection, code",
        "coverlock_sdk/locking/coverlock.py",
        "",
        "as written with `dinov2-*`; besides, a linear code, a soft rule, keys, registration",
        "",
        "same",
    ),
    Item(
        "table 2",
        "forgeries accepted",
        "bench/experiments/forgeries.py",
        "coverlock bench forgeries",
        _forgeries,
        ", ".join(f"{name} {share} %" for name, share in paper.AVERAGE_ASR.items()),
        "reduced",
        "no VINE; soft rule, with a key; MBRS has 64 bits, the paper's 256",
    ),
    Item(
        "figure 4a",
        "what each attack lifts",
        "bench/experiments/residual_gallery.py",
        "coverlock bench residuals",
        "docs/plots/lifted-residuals.svg; drawn by every audit",
        "",
        "reduced",
        NO_VINE,
    ),
    Item(
        "figure 4b",
        "hash error under six distortions",
        "bench/coverlock_bench/hashes/hash_report.py",
        "coverlock bench hash",
        _hash_error,
        "4.2 % (DINOv2-G)",
        "differs",
        "a linear code that was computed, with the frame of a crop given; ours on unmarked photos, "
        "the paper's on marked ones",
    ),
    Item(
        "figure 4c",
        "ASR against TPR",
        "bench/coverlock_bench/auditing/figures.py",
        SECURITY,
        "drawn by 'coverlock bench security'",
        "",
        "reduced",
        "one hash instead of a series of backbones",
    ),
    Item(
        "table 3",
        "bits read under distortion",
        "bench/coverlock_bench/auditing/security_tables.py",
        SECURITY,
        _in_measurements,
        "",
        "differs",
        "distorted at 256 pixels and then brought to the network's 128, by networks that were "
        "trained on such distortions; docs/watermarks.md has them at the network's own size",
    ),
    Item(
        "section 4, appendix B, eq. 14-15, 29-39",
        "seven losses of the hash",
        LOSSES,
        "",
        "as written",
        "",
        "same",
    ),
    Item(
        "appendix B.3",
        "training configuration",
        "coverlock_sdk/training/hashes/trainer.py",
        "coverlock train hash --backbone dinov2-s",
        "as written for DINOv2",
        "200,000 steps, batch 256, noise up to 0.02",
        "reduced",
        "no DINOv2 head was trained here at that length",
    ),
    Item(
        "figure 5",
        "training dynamics",
        "coverlock_sdk/training/hashes/figures.py",
        "coverlock train hash",
        "written by every training",
        "",
        "reduced",
        "one hash instead of four backbones",
    ),
    Item(
        "appendix C, figure 6",
        "single and mean residuals",
        "bench/coverlock_bench/auditing/signatures.py",
        "coverlock audit NAME",
        "drawn by every audit",
        "",
        "reduced",
        NO_VINE,
    ),
    Item(
        "appendix D, table 4",
        "RT@1",
        "bench/coverlock_bench/rt.py",
        "coverlock bench references",
        lambda r: _rt(r, "1"),
        _their_rt("1"),
        "reduced",
        f"{NARROW}; {PAIRED}",
    ),
    Item(
        "appendix D, table 4",
        "RT@1000",
        "bench/coverlock_bench/rt.py",
        "coverlock bench transferability",
        lambda r: _rt(r, "1000", "bench transferability"),
        _their_rt("1000"),
        "reduced",
        f"photos of three sets together, of which none has 1,100; {NARROW}; {PAIRED}",
    ),
    Item(
        "appendix E.1, figure 7",
        "training-side factors",
        "bench/experiments/training_factors.py",
        "coverlock bench training-factors",
        _factors,
        "HiDDeN stays low, MBRS high",
        "reduced",
        "64 pixels, one seed",
    ),
    Item(
        "appendix E.2, figure 8",
        "broadcast and pooling apart",
        "bench/experiments/interventions.py",
        "coverlock bench interventions",
        lambda r: _intervention(r, "hidden-without-broadcast", "hidden-without-gap"),
        "0.228; 0.313",
        "reduced",
        SMALL,
    ),
    Item(
        "appendix F, figure 9",
        "false positives",
        "bench/coverlock_bench/hashes/null_calibration.py",
        "coverlock bench calibration",
        _calibration,
        "no false accept in 50,000 photos",
        "reduced",
        "64 bits instead of 256; photos of three sets instead of ImageNet",
    ),
    Item(
        "appendix G, table 6",
        "classifier backbones",
        "bench/experiments/filters.py",
        "coverlock bench filters",
        _filters,
        "ConvNeXt 99.7 %, ResNet 97.7 %, DINOv2 + MLP 72.4 %",
        "reduced",
        "narrow networks on textures; features of a small network, not of DINOv2-G; ours on clean "
        "pictures, and distorted in brackets, the paper's over both",
    ),
    Item(
        "tables 2 and 3",
        "MHDW",
        "plugins/coverlock_plugins/mhdw/__init__.py",
        SECURITY,
        "MHDW-style",
        "",
        "differs",
        "the original's hash is not described where we could read it. Ours compares 256 pairs of "
        "blocks, and photos hardly ever agree in enough of them; the paper's accepts up to 55 %",
    ),
)


def _ours(item: Item, results: Results) -> str:
    """Our figure, or that it has not been measured with the lock as it is now."""
    if not callable(item.ours):
        return item.ours
    measured = item.command.removeprefix("coverlock ") in results
    return item.ours(results) if measured else "not measured yet"


def _rows(results: Results) -> list[Row]:
    return [
        {
            "place": item.place,
            "what": item.what,
            "home": f"`{item.home}`",
            "command": f"`{item.command}`" if item.command else "",
            "ours": _ours(item, results),
            "theirs": item.theirs,
            "word": f"**{item.word}**" + (f": {item.why}" if item.why else ""),
        }
        for item in ITEMS
    ]


FIDELITY = Table(
    "The paper, item by item",
    _rows,
    (
        ("in the paper", "{place}"),
        ("what", "{what}"),
        ("where", "{home}"),
        ("command", "{command}"),
        ("ours", "{ours}"),
        ("paper", "{theirs}"),
        ("in one word", "{word}"),
    ),
)
