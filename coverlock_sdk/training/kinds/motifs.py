"""The kinds of pictures that show a thing, a person or a scene, drawn or as a photo would."""

from __future__ import annotations

from coverlock_sdk.training.kinds import codes, drawings, framing, greys, layouts, people, products
from coverlock_sdk.training.kinds.kind import Kind

MOTIFS: tuple[Kind, ...] = (
    Kind("QR codes", (codes.qr_code, codes.qr_poster), (codes.held_out_qr,), True),
    Kind(
        "bar codes",
        (codes.bar_code, layouts.made_up_label),
        (codes.parcel_label,),
        one_template=True,
    ),
    Kind("line art", (drawings.line_art,), (drawings.comic_scene,)),
    Kind("logos", (drawings.logo, drawings.initials), (drawings.wordmark,)),
    Kind("small products", (products.small_product, products.small_print), (products.small_pack,)),
    Kind("large products", (products.large_product,), (products.large_pack,)),
    Kind("portraits", (people.portrait,), (people.profile_badge,)),
    Kind(
        "scans",
        (greys.chest_scan, greys.slice_scan, greys.tissue_scan, greys.vessel_scan),
        (greys.ultrasound, greys.bone_scan),
        one_template=True,
    ),
    Kind("night", (greys.night_sky, greys.dim_room), (greys.night_city,)),
    Kind("fog", (greys.fog,), (greys.haze,)),
    Kind("memes", (framing.meme,), (framing.captioned,)),
    Kind(
        "frames and letterboxes",
        (framing.framed, framing.letterboxed),
        (framing.polaroid, framing.blurred_sides),
    ),
)
