"""TrustMark's payloads: the same bits as TrustMark's, and as many errors corrected as promised."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coverlock_plugins.trustmark.bch import Bch
from coverlock_plugins.trustmark.packets import SCHEMAS, pack, unpack
from coverlock_sdk.errors import MessageError

# What TrustMark 0.9.2 makes of the text "mysec", as a number of 100 bits.
TRUSTMARKS = {
    "BCH_SUPER": 0xDBE79E5C600DD123916547420,
    "BCH_5": 0xDBE79E5C6000000588978B1D1,
    "BCH_4": 0xDBE79E5C6000000007D733812,
    "BCH_3": 0xDBE79E5C60000000001303FD3,
}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_packets_are_trustmarks(schema):
    theirs = np.array([int(bit) for bit in f"{TRUSTMARKS[schema]:0100b}"], np.uint8)
    np.testing.assert_array_equal(pack("mysec", schema), theirs)
    packet = unpack(theirs)
    assert packet is not None
    assert (packet.text, packet.schema, packet.corrected) == ("mysec", schema, 0)


@given(st.sampled_from(sorted(SCHEMAS)), st.data())
def test_every_promised_error_is_corrected(schema, data):
    kind = SCHEMAS[schema]
    message = data.draw(st.lists(st.integers(0, 1), min_size=kind.capacity, max_size=kind.capacity))
    wrong = data.draw(st.sets(st.integers(0, 95), max_size=kind.errors))
    payload = pack(message, schema)
    payload[list(wrong)] ^= 1
    packet = unpack(2.0 * payload - 1)  # logits
    assert packet is not None
    assert packet.data.tolist() == message
    assert (packet.schema, packet.corrected) == (schema, len(wrong))


@pytest.mark.parametrize("errors", [3, 4, 5, 8])
def test_codewords_are_those_of_the_kernels_bch(errors):
    bchlib = pytest.importorskip("bchlib")
    theirs, ours = bchlib.BCH(errors, prim_poly=137), Bch(errors)
    for data in np.random.default_rng(errors).integers(0, 256, (20, 5), dtype=np.uint8):
        check = np.unpackbits(np.frombuffer(theirs.encode(data.tobytes()), np.uint8))
        np.testing.assert_array_equal(ours.encode(np.unpackbits(data)), check[: ours.check_bits])


def test_what_does_not_fit_is_refused():
    with pytest.raises(MessageError, match="'BCH_5' carries 61 bits, or 8 characters"):
        pack("nine char")
    with pytest.raises(MessageError, match="7-bit ASCII, which has no 'ü'"):
        pack("für")
    with pytest.raises(MessageError, match="there is no schema 'BCH_9'"):
        pack("a", "BCH_9")
    with pytest.raises(MessageError, match="a packet has 100 bits"):
        unpack(np.zeros(64))
