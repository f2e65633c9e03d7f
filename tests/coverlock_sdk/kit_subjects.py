"""A sound little watermark, and one copy of it for every way of breaking a promise."""

import threading
import time

import numpy as np

from coverlock_sdk import Calibration, Watermark, hookimpl

STEP = 0.5
WAVE = np.cos(np.pi * np.add.outer(np.arange(8) + 0.5, np.arange(8) + 0.5) / 4)
WAVE /= np.linalg.norm(WAVE)


def coefficients(images):
    """One for each whole 8 x 8 block: (N, rows, columns)."""
    rows, columns = images.shape[2] // 8, images.shape[3] // 8
    blocks = images.mean(axis=1)[:, : 8 * rows, : 8 * columns].reshape(-1, rows, 8, columns, 8)
    return np.einsum("naibj,ij->nab", blocks, WAVE)


class Sound(Watermark):
    """One bit per 8 x 8 block, in turn: a coefficient moved to the nearest of two lattices."""

    name = "sound"
    bits = 64
    native_size = (64, 64)

    def embed(self, images, payloads):
        return np.clip(images + self.residual(images, payloads), 0, 1).astype(np.float32)

    def decode(self, images):
        votes = 8 * np.sin(2 * np.pi * coefficients(images) / STEP).reshape(len(images), -1)
        rounds = -(-votes.shape[1] // 64)
        padded = np.pad(votes, ((0, 0), (0, 64 * rounds - votes.shape[1])))
        return padded.reshape(-1, rounds, 64).mean(axis=1).astype(np.float32)

    def residual(self, images, payloads):
        now = coefficients(images)
        bits = np.resize(np.arange(64), now[0].shape)
        offset = STEP * (0.5 * payloads[:, bits] - 0.25)
        wanted = np.rint((now - offset) / STEP) * STEP + offset
        residual = np.zeros((len(images), 1, *images.shape[2:]))
        blocks = (wanted - now)[:, :, None, :, None] * WAVE[:, None, :]
        rows, columns = 8 * now.shape[1], 8 * now.shape[2]
        residual[:, 0, :rows, :columns] = blocks.reshape(-1, rows, columns)
        return residual


class AnySize(Sound):
    name = "any-size"
    native_size = None


class HardBits(Sound):
    name = "hard-bits"
    hard_bits = True

    def decode(self, images):
        return (super().decode(images) > 0).astype(np.uint8)


class OneSize(Sound):
    """Claims any size, and works at multiples of eight only."""

    name = "one-size"
    native_size = None

    def embed(self, images, payloads):
        return super().embed(images.reshape(len(images), 3, images.shape[2] // 8 * 8, -1), payloads)


class SecretBits(Sound):
    """Returns bits and does not say so."""

    name = "secret-bits"

    def decode(self, images):
        return (super().decode(images) > 0).astype(np.float32)


class Probabilities(Sound):
    name = "probabilities"

    def decode(self, images):
        return 1 / (1 + np.exp(-super().decode(images)))


class Colour(Sound):
    """Marks the difference of red and blue, of which nothing is left in grey."""

    name = "colour"

    def embed(self, images, payloads):
        difference = images[:, :1] - images[:, 2:]
        residual = self.residual(difference, payloads) * [[[0.5]], [[0]], [[-0.5]]]
        grey = np.einsum("nchw,c->nhw", residual, [0.299, 0.587, 0.114])[:, None]
        return np.clip(images + residual - grey, 0, 1).astype(np.float32)

    def decode(self, images):
        return super().decode(images[:, :1] - images[:, 2:])


class WrongLayer(Sound):
    name = "wrong-layer"
    feature_layer = "blocks.7"

    def decoder_module(self):
        import torch

        class Decoder(torch.nn.Module):
            def __init__(self, decode):
                super().__init__()
                self.blocks, self.numpy = torch.nn.Sequential(torch.nn.Identity()), decode

            def forward(self, images):
                return torch.from_numpy(self.numpy(self.blocks(images).numpy()))

        return Decoder(self.decode).eval()


class OnSelf(Sound):
    """Keeps the payload on self, where another thread replaces it."""

    name = "on-self"

    def embed(self, images, payloads):
        self.current = payloads
        time.sleep(0.01)
        return super().embed(images, self.current)


class Guarded(OnSelf):
    """The same with a lock, which is all it takes."""

    name = "guarded"

    def __init__(self):
        self.lock = threading.Lock()

    def embed(self, images, payloads):
        with self.lock:
            return super().embed(images, payloads)


def spoilt(images):
    """Overwrite what was given."""
    images -= 0.5


def out_of_range(marked):
    marked[..., 0, 0] = 1.5
    return marked


def refuse(*_):
    raise RuntimeError("no licence found")


def noise(shape, deviation):
    return np.random.default_rng().normal(0, deviation, shape).astype(np.float32)


DIFFERENT_ORDER = np.random.RandomState(0).permutation(64)
EVERY_EIGHTH = np.where(np.arange(64) % 8 == 0, -1, 1).astype(np.float32)

BROKEN = {  # what each subject makes of the pictures it is given and of the answer it would give
    "overwriting": {"embed": lambda images, marked: (marked, spoilt(images))[0]},
    "random": {"embed": lambda images, marked: np.clip(marked + noise(marked.shape, 0.004), 0, 1)},
    "wrong-shape": {"decode": lambda images, logits: logits[:, :-1]},
    "out-of-range": {"embed": lambda images, marked: out_of_range(marked)},
    "raising": {"embed": refuse},
    "batch-mean": {"embed": lambda images, m: np.clip(m + 0.1 * (images.mean() - 0.5), 0, 1)},
    "inverted": {"decode": lambda images, logits: -logits},
    "unrelated": {"decode": lambda images, logits: logits[:, DIFFERENT_ORDER]},
    "inaccurate": {"decode": lambda images, logits: logits * EVERY_EIGHTH},
}

MEMBERS = {
    "unwritable-card": {"card": {"photos": {"a set": {1, 2}}}},
    "deaf": {"embed": lambda self, x, p: Sound.embed(self, x, np.zeros_like(p))},
    "visible": {"embed": lambda self, x, p: Sound.embed(self, 0.15 + 0.7 * x, p)},
    "list-size": {"native_size": [64, 64]},
    "backwards-calibration": {"calibration": Calibration(scale=-1.0)},
}


def broken(embed=None, decode=None):
    """Methods of ``Sound`` whose answers are changed."""
    members = {}
    if embed:
        members["embed"] = lambda self, x, p: embed(x, Sound.embed(self, x, p))
    if decode:
        members["decode"] = lambda self, x: decode(x, Sound.decode(self, x))
    return members


@hookimpl
def register_watermarks(register):
    for watermark in [Sound, *Sound.__subclasses__(), Guarded]:
        register(watermark)
    for name, methods in BROKEN.items():
        register(type("Broken", (Sound,), {"name": name, **broken(**methods)}))
    for name, members in MEMBERS.items():
        register(type("Broken", (Sound,), {"name": name, **members}))
