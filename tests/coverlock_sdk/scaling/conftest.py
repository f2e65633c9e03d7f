import pytest
from PIL import Image

from coverlock_sdk.testing import natural_pictures
from tests.toy_bundle import toy_lock, write_toy_bundle

MARKED, PLAIN = 20, 10


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    return write_toy_bundle(tmp_path_factory.mktemp("toy") / "bundle").path


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Marked and unmarked pictures of several sizes, and two files that are no pictures."""
    folder = tmp_path_factory.mktemp("pictures")
    lock = toy_lock()
    for number, picture in enumerate(natural_pictures(MARKED + PLAIN, (144, 176), seed=5)):
        if number < MARKED:
            picture = lock.embed(picture, "alice")
        if number % 3 == 0:
            picture = picture[:, ::-1] if number >= MARKED else picture
        Image.fromarray(picture).save(folder / f"{number:03}.png")
    (folder / "cut.png").write_bytes((folder / "000.png").read_bytes()[:900])
    (folder / "text.jpg").write_text("not a picture")
    return folder
