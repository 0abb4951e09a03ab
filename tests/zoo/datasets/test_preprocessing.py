"""Transforms equal those of timm, open_clip and torchvision, bit for bit."""

import dataclasses
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import zoo
from zoo.cards.card import Transform
from zoo.datasets.preprocessing import Packed, Pipeline

HALF = (0.5, 0.5, 0.5)


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    """Return noise with structure, so that differences in interpolation and crops are visible."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (7, 9, 3), np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
    return Image.fromarray(np.clip(np.asarray(coarse) + rng.normal(0, 20, (height, width, 3)), 0, 255).astype(np.uint8))


TIMM = ["resnet50.tv_in1k", "vit_base_patch16_224.augreg_in21k_ft_in1k", "eva02_large_patch14_448.mim_m38m_ft_in1k",
        "efficientnet_b3.ra2_in1k", "vit_small_patch14_dinov2.lvd142m", "mobilenetv4_conv_small.e2400_r224_in1k",
        "beit_base_patch16_224.in22k_ft_in22k_in1k", "vit_base_patch16_siglip_224.webli"]  # fmt: skip


@pytest.mark.parametrize("id", TIMM)
def test_equal_to_timm(id: str) -> None:
    import timm
    from timm.data import create_transform, resolve_data_config

    config = timm.get_pretrained_cfg(id)
    theirs = create_transform(**resolve_data_config(pretrained_cfg=config.to_dict()))
    ours = Pipeline(zoo.card(f"timm:{id}").transform)
    for size in [(640, 480), (333, 500), (224, 224), (50, 41), (1, 1)]:
        image = noise(*size)
        assert torch.equal(ours(image), theirs(image)), size


@pytest.mark.parametrize("id", ["ViT-B-32/openai", "ViT-B-16-SigLIP2/webli", "convnext_base_w/laion2b_s13b_b82k"])
def test_equal_to_open_clip(id: str) -> None:
    import open_clip
    from open_clip.transform import PreprocessCfg, image_transform_v2, merge_preprocess_dict

    architecture, _, tag = id.partition("/")
    config = merge_preprocess_dict(vars(PreprocessCfg()), open_clip.get_pretrained_cfg(architecture, tag))
    config = merge_preprocess_dict(config, {"size": open_clip.get_model_config(architecture)["vision_cfg"]["image_size"]})
    theirs = image_transform_v2(PreprocessCfg(**config), is_train=False)
    ours = Pipeline(zoo.card(f"open_clip:{id}").transform)
    for size in [(640, 480), (333, 500), (50, 41)]:
        image = noise(*size)
        assert torch.equal(ours(image), theirs(image)), size


@given(
    st.integers(1, 90), st.integers(1, 90), st.integers(1, 40), st.integers(1, 40), st.integers(1, 60),
    st.sampled_from(["nearest", "bilinear", "bicubic", "box", "lanczos"]),
)  # fmt: skip
def test_equal_to_torchvision(width: int, height: int, rows: int, columns: int, short: int, interpolation: str) -> None:
    from torchvision import transforms

    mode = transforms.InterpolationMode(interpolation)
    theirs = transforms.Compose(
        [transforms.Resize(short, mode), transforms.CenterCrop((rows, columns)), transforms.ToTensor(),
         transforms.Normalize(HALF, (0.2, 0.3, 0.4))]
    )  # fmt: skip
    if max(width, height) > 32 * min(width, height):
        return  # very long images are cropped first, see below
    ours = Pipeline(Transform((3, rows, columns), (short,), interpolation, HALF, (0.2, 0.3, 0.4)))
    image = noise(width, height)
    assert torch.equal(ours(image), theirs(image))


@pytest.mark.parametrize("fit", ["cover", "inside"])
def test_cover_and_inside_equal_to_timm(fit: str) -> None:
    from timm.data.transforms import CenterCropOrPad, ResizeKeepRatio

    mean = (0.48, 0.45, 0.4)
    resize = ResizeKeepRatio((30, 40), longest=float(fit == "inside"), interpolation="bicubic")
    crop = CenterCropOrPad((30, 40), fill=tuple(round(255 * m) for m in mean) if fit == "inside" else 0)
    ours = Pipeline(Transform((3, 30, 40), (30, 40), "bicubic", mean, HALF, fit))
    for size in [(100, 50), (50, 100), (40, 30), (7, 9)]:
        image = noise(*size)
        theirs = np.asarray(crop(resize(image)))
        assert np.array_equal(ours.pixels(image).permute(1, 2, 0).numpy(), theirs), size


def test_pixels_and_normalise_together_equal_the_call() -> None:
    pipeline = Pipeline(Transform((3, 20, 24), (26,), "bicubic", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    images = [noise(50, 40, seed) for seed in range(3)]
    batch = torch.stack([pipeline.pixels(image) for image in images])
    assert batch.dtype == torch.uint8
    assert torch.equal(pipeline.normalise(batch), torch.stack([pipeline(image) for image in images]))


def test_an_input_may_have_one_channel() -> None:
    pipeline = Pipeline(Transform((1, 4, 4), (4, 4), "bilinear", (0.0,), (1.0,)))
    assert torch.allclose(pipeline(Image.new("RGB", (9, 9), (255, 255, 255))), torch.ones(1, 4, 4))


def test_a_very_long_image_is_not_enlarged_as_a_whole() -> None:
    pipeline = Pipeline(Transform((3, 224, 224), (256,), "bicubic", HALF, HALF))
    sliver = Image.new("RGB", (40_000, 1), (10, 200, 30))
    assert np.array_equal(pipeline.pixels(sliver)[:, 100, 100].numpy(), [10, 200, 30])


def test_the_fingerprint_changes_with_every_field_and_is_the_same_in_every_process() -> None:
    base = {"size": (3, 8, 8), "resize": (9, 9), "interpolation": "bicubic", "mean": HALF, "std": HALF, "fit": "squash"}
    other = {"size": (3, 8, 9), "resize": (9, 8), "interpolation": "box", "mean": (0.5, 0.5, 0.4), "std": (0.5, 0.4, 0.5),
             "fit": "cover"}  # fmt: skip
    prints = {Pipeline(Transform(**(base | {key: value}))).fingerprint for key, value in other.items()}
    assert len(prints) == len(other)
    assert Pipeline(Transform(**base)).fingerprint not in prints
    # The fingerprint is part of the key of stored outputs.
    assert Pipeline(Transform(**base)).fingerprint == "b14f716e5f18c5f3"


@pytest.mark.parametrize("fit", ["squash", "cover", "inside"])
def test_transforms_with_equal_keys_have_equal_pixels_and_others_may_not(fit: str) -> None:
    base = Transform((3, 8, 8), (9, 9), "bicubic", HALF, HALF, fit)
    changes = {"size": (3, 8, 9), "resize": (9, 8), "interpolation": "box", "grey": True, "mean": (0.5, 0.5, 0.4),
               "std": (0.5, 0.4, 0.5)}  # fmt: skip
    for field, value in changes.items():
        other = dataclasses.replace(base, **{field: value})
        keys = {Pipeline(spec).pixels_key for spec in (base, other)}
        images = noise(40, 10), noise(10, 40)
        equal = [torch.equal(Pipeline(base).pixels(image), Pipeline(other).pixels(image)) for image in images]
        assert all(equal) == (len(keys) == 1), field
        assert len({Packed((Pipeline(spec), Pipeline(base))).pixels_key for spec in (base, other)}) == len(keys)


def test_packed_inputs_are_unpacked_to_those_of_each_transform() -> None:
    parts = (
        Pipeline(Transform((3, 8, 6), (9,), "bicubic", HALF, HALF)),
        Pipeline(Transform((1, 5, 5), (5, 5), "bilinear", (0.1,), (0.3,))),
    )
    packed = Packed(parts)
    images = [noise(20, 15, seed) for seed in range(2)]
    batch = torch.stack([packed(image) for image in images])
    assert batch.shape[1:] == packed.size
    batch.to(memory_format=torch.channels_last)
    for part, piece in zip(parts, packed.unpack(batch), strict=True):
        assert torch.equal(piece, torch.stack([part(image) for image in images]))
    raw = torch.stack([packed.pixels(image) for image in images])
    assert raw.dtype == torch.uint8
    assert torch.equal(packed.normalise(raw), batch)
    assert packed.fingerprint != Packed(parts[::-1]).fingerprint


def test_a_pipeline_can_be_pickled() -> None:
    pipeline = Pipeline(Transform((3, 8, 6), (9,), "bicubic", HALF, HALF))
    image = noise(20, 15)
    assert torch.equal(pickle.loads(pickle.dumps(pipeline))(image), pipeline(image))


def test_a_grey_transform_removes_colours_as_torchvision_does() -> None:
    from torchvision.transforms.functional import to_grayscale

    image = noise(7, 5)
    spec = Transform((3, 4, 4), (4, 4), "bilinear", (0.0,) * 3, (1.0,) * 3)
    blind = Pipeline(dataclasses.replace(spec, grey=True))
    torch.testing.assert_close(blind(image), Pipeline(spec)(to_grayscale(image, 3)), rtol=0, atol=0)
    assert blind.fingerprint != Pipeline(spec).fingerprint
    assert not torch.equal(blind(image), Pipeline(spec)(image))
    grey = image.convert("L")
    torch.testing.assert_close(blind(grey), blind(grey.convert("RGB")), rtol=0, atol=0)
