from __future__ import annotations

import numpy as np
import pytest

from coverlock_sdk import load_hash
from coverlock_sdk.testing import natural_pictures


@pytest.mark.parametrize("name", ["nano", "keen", "duo", "dct"])
def test_gradients_are_those_of_the_same_hash_in_pytorch(name):
    torch = pytest.importorskip("torch")
    image_hash = load_hash(name)
    # Without contrast many units are zero but for rounding, where either slope would be right; in
    # these pictures they decide over nothing.
    pictures = natural_pictures(2, image_hash.input_size, seed=8)
    views = np.stack([np.moveaxis(picture, -1, 0) for picture in pictures]).astype(np.float32) / 255
    views[1] = np.clip(views[1] / 40 + 0.5, 0, 1)  # hardly any contrast
    weights = np.random.default_rng(0).standard_normal((2, 256)).astype(np.float32)

    logits, gradient = image_hash.differentiable()(views)
    tensor = torch.from_numpy(views).requires_grad_()
    torch.autograd.backward(image_hash.module()(tensor), torch.from_numpy(weights))

    np.testing.assert_allclose(logits, image_hash.logits(views), atol=1e-4)
    found, expected = gradient(weights), tensor.grad.numpy()
    for row in range(2):
        error = np.abs(found[row] - expected[row]).max()
        assert error < 1e-3 * np.abs(expected[row]).max()
