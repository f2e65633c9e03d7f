import pytest

from tests.served import png
from tests.toy_bundle import toy_lock, write_toy_bundle


@pytest.fixture(scope="session")
def bundle(tmp_path_factory):
    return write_toy_bundle(tmp_path_factory.mktemp("served") / "bundle", embedding=True)


@pytest.fixture(scope="session")
def marked(photos):
    """A picture that carries "alice"."""
    return png(toy_lock().embed(photos[0], "alice"))
