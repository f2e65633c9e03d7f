"""The two ConvNeXts against the layouts they were published with."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from coverlock_plugins.convnext.network import (  # noqa: E402
    BASE,
    TINY,
    ConvNeXt,
    ConvNeXtV2,
    ResponseNorm,
    Shape,
)

Layout = list[tuple[str, tuple[int, ...]]]

SMALL = Shape((1, 1, 2, 1), (8, 16, 24, 32))


def layout(network: torch.nn.Module) -> Layout:
    return [(name, tuple(value.shape)) for name, value in network.state_dict().items()]


def torchvision_block(name: str, width: int) -> Layout:
    return [
        (f"{name}.layer_scale", (width, 1, 1)),
        (f"{name}.block.0.weight", (width, 1, 7, 7)),
        (f"{name}.block.0.bias", (width,)),
        (f"{name}.block.2.weight", (width,)),
        (f"{name}.block.2.bias", (width,)),
        (f"{name}.block.3.weight", (4 * width, width)),
        (f"{name}.block.3.bias", (4 * width,)),
        (f"{name}.block.5.weight", (width, 4 * width)),
        (f"{name}.block.5.bias", (width,)),
    ]


def torchvision_halving(name: str, before: int, after: int) -> Layout:
    return [
        (f"{name}.0.weight", (before,)),
        (f"{name}.0.bias", (before,)),
        (f"{name}.1.weight", (after, before, 2, 2)),
        (f"{name}.1.bias", (after,)),
    ]


def test_base_has_the_names_shapes_and_order_of_torchvision() -> None:
    expected: Layout = [
        ("features.0.0.weight", (128, 3, 4, 4)),
        ("features.0.0.bias", (128,)),
        ("features.0.1.weight", (128,)),
        ("features.0.1.bias", (128,)),
    ]
    for block in range(3):
        expected += torchvision_block(f"features.1.{block}", 128)
    expected += torchvision_halving("features.2", 128, 256)
    for block in range(3):
        expected += torchvision_block(f"features.3.{block}", 256)
    expected += torchvision_halving("features.4", 256, 512)
    for block in range(27):
        expected += torchvision_block(f"features.5.{block}", 512)
    expected += torchvision_halving("features.6", 512, 1024)
    for block in range(3):
        expected += torchvision_block(f"features.7.{block}", 1024)
    expected += [
        ("classifier.0.weight", (1024,)),
        ("classifier.0.bias", (1024,)),
        ("classifier.2.weight", (1000, 1024)),
        ("classifier.2.bias", (1000,)),
    ]
    with torch.device("meta"):
        assert layout(ConvNeXt(BASE)) == expected


@pytest.mark.parametrize(("shape", "published"), [(TINY, 28_589_128), (BASE, 88_591_464)])
def test_the_number_of_weights_is_the_published_one(shape: Shape, published: int) -> None:
    with torch.device("meta"):
        network = ConvNeXt(shape)
    assert sum(weights.numel() for weights in network.parameters()) == published


def test_version_two_has_the_names_and_shapes_of_its_authors() -> None:
    def stage(index: int, depth: int, width: int) -> Layout:
        return [
            entry
            for block in (f"stages.{index}.{number}" for number in range(depth))
            for entry in (
                (f"{block}.dwconv.weight", (width, 1, 7, 7)),
                (f"{block}.dwconv.bias", (width,)),
                (f"{block}.norm.weight", (width,)),
                (f"{block}.norm.bias", (width,)),
                (f"{block}.pwconv1.weight", (4 * width, width)),
                (f"{block}.pwconv1.bias", (4 * width,)),
                (f"{block}.grn.gamma", (1, 1, 1, 4 * width)),
                (f"{block}.grn.beta", (1, 1, 1, 4 * width)),
                (f"{block}.pwconv2.weight", (width, 4 * width)),
                (f"{block}.pwconv2.bias", (width,)),
            )
        ]

    expected = [
        ("downsample_layers.0.0.weight", (96, 3, 4, 4)),
        ("downsample_layers.0.0.bias", (96,)),
        ("downsample_layers.0.1.weight", (96,)),
        ("downsample_layers.0.1.bias", (96,)),
        *torchvision_halving("downsample_layers.1", 96, 192),
        *torchvision_halving("downsample_layers.2", 192, 384),
        *torchvision_halving("downsample_layers.3", 384, 768),
        *stage(0, 3, 96),
        *stage(1, 3, 192),
        *stage(2, 9, 384),
        *stage(3, 3, 768),
    ]
    with torch.device("meta"):
        assert layout(ConvNeXtV2(TINY)) == expected


def test_both_look_at_pictures_of_any_size_of_whole_patches() -> None:
    for side in (32, 96):
        pictures = torch.rand(2, 3, side, side)
        assert ConvNeXt(SMALL, classes=5)(pictures).shape == (2, 5)
        assert ConvNeXt(SMALL).features(pictures).shape == (2, 32, side // 32, side // 32)
        assert ConvNeXtV2(SMALL)(pictures).shape == (2, 32, side // 32, side // 32)


def test_a_new_block_passes_its_input_on_up_to_the_layer_scale() -> None:
    network = ConvNeXt(SMALL, layer_scale=0.0)
    x = torch.rand(1, 8, 4, 4)
    assert torch.equal(network.features[1](x), x)


def test_response_norm_by_hand() -> None:
    """Energies 5 and 0 have the mean 2.5, so the channels are weighed by 2 and 0."""
    norm = ResponseNorm(2)
    x = torch.tensor([[[[3.0, 0.0], [4.0, 0.0]]]])  # one row, two columns, two channels
    assert torch.equal(norm(x), x)  # gamma and beta start at zero
    torch.nn.init.ones_(norm.gamma)
    torch.nn.init.constant_(norm.beta, 0.5)
    expected = torch.tensor([[[[9.5, 0.5], [12.5, 0.5]]]])
    torch.testing.assert_close(norm(x), expected, rtol=1e-5, atol=1e-5)
