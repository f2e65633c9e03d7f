"""Photos that something was done to: captions, frames and letterboxes."""

from __future__ import annotations

from PIL import Image, ImageDraw

from coverlock_sdk.training.kinds.desk import (
    Colour,
    Desk,
    between,
    chance,
    dark,
    filled,
    mix,
    pale,
    sheet,
    vivid,
    whole,
)


def meme(desk: Desk) -> Image.Image:
    """A photo with large white letters above and below."""
    content, words = desk.content, desk.words
    picture = filled(desk.photo(content).convert("RGB"), 400, whole(desk.style, 300, 440))
    pen = ImageDraw.Draw(picture)
    face = desk.font(between(desk.style, 28, 42))
    for y in (14, picture.height - 56):
        text = words.line(content, whole(content, 8, 18)).upper()
        pen.text(
            (200, y),
            text,
            (255, 255, 255),
            face,
            anchor="ma",
            stroke_width=3,
            stroke_fill=(0, 0, 0),
        )
    return picture


def framed(desk: Desk) -> Image.Image:
    """A photo in a frame with a mount."""
    style = desk.style
    frame, mount = whole(style, 6, 34), whole(style, 0, 50)
    picture, pen = sheet((420, whole(style, 340, 420)), mix(dark(style), vivid(style), 0.3))
    pen.rectangle((frame, frame, 420 - frame, picture.height - frame), pale(style))
    edge = frame + mount
    photo = filled(desk.photo(desk.content), 420 - 2 * edge, picture.height - 2 * edge)
    picture.paste(photo, (edge, edge))
    return picture


def letterboxed(desk: Desk) -> Image.Image:
    """A photo between bars, above and below or at the sides."""
    colour: Colour = (0, 0, 0) if chance(desk.style, 0.7) else pale(desk.style)
    picture, _ = sheet((400, 400), colour)
    bar = round(400 * between(desk.style, 0.08, 0.25))
    if chance(desk.style, 0.5):
        picture.paste(filled(desk.photo(desk.content), 400, 400 - 2 * bar), (0, bar))
    else:
        picture.paste(filled(desk.photo(desk.content), 400 - 2 * bar, 400), (bar, 0))
    return picture


def captioned(desk: Desk) -> Image.Image:
    """Held out: a photo under a white panel with black text, as posts are shared."""
    content = desk.content
    picture, pen = sheet((420, 470), (255, 255, 255))
    face = desk.font(20)
    for row in range(2):
        text = desk.words.line(content, whole(content, 18, 36))
        pen.text((16, 12 + 27 * row), text, (15, 15, 15), face)
    picture.paste(filled(desk.photo(content), 420, 396), (0, 74))
    return picture


def polaroid(desk: Desk) -> Image.Image:
    """Held out: an instant photo with a thick lower edge."""
    picture, pen = sheet((400, 460), (238, 236, 228))
    pen.rectangle((14, 14, 386, 446), (252, 252, 250))
    picture.paste(filled(desk.photo(desk.content), 340, 330), (30, 30))
    return picture


def blurred_sides(desk: Desk) -> Image.Image:
    """Held out: an upright photo before a dimmed, stretched copy of itself."""
    photo = desk.photo(desk.content).convert("RGB")
    stretched = photo.resize((12, 8)).resize((480, 320), Image.Resampling.BICUBIC)
    picture = Image.blend(stretched, Image.new("RGB", (480, 320)), 0.4)
    picture.paste(filled(photo, 230, 320), (125, 0))
    return picture
