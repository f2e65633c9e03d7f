"""Bundles that name a plugin: it must be there, in its version, and answer as it did."""

import pytest

from coverlock_sdk import Verifier
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.bundles.bundle_lock import pinned_plugin
from coverlock_sdk.errors import BundleError, CoverLockError
from coverlock_sdk.plugin_manager import plugin_manager
from coverlock_sdk.verifier.verifier import Settings
from tests.conftest import AdditiveMark, AdditivePlugin
from tests.toy_bundle import BITS, toy_lock, write_toy_bundle


@pytest.fixture(autouse=True)
def installed():
    """The test watermark as if it came from a package."""
    plugin_manager.cache_clear()
    plugin_manager().add("additive", AdditivePlugin())
    [plugin] = [plugin for plugin in plugin_manager().plugins if plugin.name == "additive"]
    plugin.distribution = "additive-mark 1.2"
    yield plugin
    plugin_manager.cache_clear()


@pytest.fixture
def bundle(tmp_path, installed):
    return write_toy_bundle(tmp_path / "bundle", plugin=pinned_plugin(AdditiveMark(BITS)))


def opened(bundle: Bundle, **options) -> Verifier:
    return Verifier.open(bundle.path, "cpu", settings=Settings(threads=1, **options))


def test_the_manifest_pins_distribution_and_version(bundle):
    plugin = Bundle.open(bundle.path).manifest.plugin
    assert (plugin.distribution, plugin.version, len(plugin.probe)) == ("additive-mark", "1.2", 48)
    assert plugin == bundle.manifest.plugin


def test_it_verifies_like_the_lock(bundle, photos):
    marked = toy_lock().embed(photos, "alice")
    with opened(bundle) as verifier:
        ours, theirs = verifier.verify(list(marked), "alice"), toy_lock().verify(marked, "alice")
        assert ours == theirs
        assert all(ours)
        assert verifier.verify(marked[0], "alice")
        assert not verifier.verify(photos[0], "alice")


def test_another_version_is_refused(bundle, installed):
    installed.distribution = "additive-mark 1.3"
    with pytest.raises(BundleError, match=r"additive-mark 1\.2, and here is .*additive-mark 1\.3"):
        opened(bundle)


def test_a_missing_plugin_is_named_with_the_command(bundle):
    plugin_manager.cache_clear()
    with pytest.raises(BundleError, match=r"pip install 'additive-mark==1\.2'"):
        opened(bundle)


def test_a_plugin_that_answers_differently_is_refused(bundle):
    class Changed(AdditiveMark):
        def decode(self, images):
            return 1.1 * super().decode(images)

    with pytest.raises(BundleError, match="decodes a test picture differently"):
        opened(bundle, watermark=Changed(BITS))
    with opened(bundle, watermark=AdditiveMark(BITS)):
        pass


def test_tensorrt_is_refused_where_a_plugin_decodes(bundle):
    with pytest.raises(CoverLockError, match="decodes on this machine"):
        Verifier.open(bundle.path, "tensorrt")
