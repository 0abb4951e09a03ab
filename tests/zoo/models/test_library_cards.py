"""Cards made from the registries of timm, open_clip and transformers, compared with the libraries themselves."""

import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import timm
import transformers
from huggingface_hub import constants
from PIL import Image
from raised import fields
from timm.data import create_transform, resolve_data_config
from torchvision import transforms

from zoo.cards.card import Transform, parse, write
from zoo.errors import InputError, MissingWeights, UnknownName
from zoo.models.registry import card as describe
from zoo.models.sources import tags
from zoo.models.sources import transformers as from_transformers


def steps(pipeline: transforms.Compose) -> dict[str, Any]:
    """Return the steps of a library's evaluation pipeline by name."""
    return {type(step).__name__: step for step in pipeline.transforms}


def check_pipeline(transform: Transform, pipeline: transforms.Compose) -> None:
    """Check that a transform resizes, crops and normalises as the library's pipeline does."""
    found = steps(pipeline)
    if "Resize" in found:
        size = found["Resize"].size
        assert transform.resize == ((size,) if isinstance(size, int) else tuple(size))
        assert transform.interpolation == found["Resize"].interpolation.value
        assert transform.fit == "squash"
    else:
        keep = found["ResizeKeepRatio"]
        assert transform.resize == tuple(keep.size)
        assert transform.fit == ("inside" if keep.longest else "cover")
    crop = found.get("CenterCrop") or found.get("CenterCropOrPad")
    assert transform.size[1:] == (tuple(np.broadcast_to(crop.size, 2)) if crop else transform.resize)
    if "CenterCropOrPad" in found:
        assert found["CenterCropOrPad"].fill == [round(255 * value) for value in transform.mean]
    np.testing.assert_allclose(transform.mean, found["Normalize"].mean, rtol=1e-6)
    np.testing.assert_allclose(transform.std, found["Normalize"].std, rtol=1e-6)


def test_every_timm_model_has_timms_licence_transform_and_classes() -> None:
    for name in timm.list_pretrained():
        card, config = describe(f"timm:{name}"), timm.models.get_pretrained_cfg(name)
        assert card.transform is not None
        assert card.id == name
        assert card.license == (config.license or "unknown")
        assert (card.head == "trained") == (config.num_classes in (1000, 11221, 11821, 21841, 21842, 21843))
        assert (card.labels == "imagenet-1k") == (config.num_classes == 1000)
        check_pipeline(card.transform, create_transform(**resolve_data_config(pretrained_cfg=config.to_dict())))


def test_every_open_clip_model_has_open_clips_transform() -> None:
    for architecture, tag in open_clip.list_pretrained():
        card = describe(f"open_clip:{architecture}/{tag}")
        assert card.transform is not None
        weights = open_clip.get_pretrained_cfg(architecture, tag)
        config = open_clip.transform.merge_preprocess_dict(open_clip.transform.PreprocessCfg(), weights)
        config["size"] = open_clip.get_model_config(architecture)["vision_cfg"]["image_size"]
        check_pipeline(
            card.transform,
            open_clip.transform.image_transform_v2(open_clip.transform.PreprocessCfg(**config), is_train=False),
        )
        assert (card.head, card.license) == ("zero-shot", "unknown")
        assert card.architecture.removesuffix("-quickgelu") == architecture.removesuffix("-quickgelu")
        if weights.get("quick_gelu"):
            assert open_clip.get_model_config(card.architecture)["quick_gelu"]


def test_every_described_card_is_a_valid_card_file() -> None:
    for name in ("timm:resnet18", "open_clip:ViT-B-16-SigLIP2/webli", "timm:vit_base_patch14_dinov2.lvd142m"):
        written = write(describe(name)).replace(f"name: {name}", "name: mine")
        assert parse(written, "mine").transform == describe(name).transform


def test_a_timm_name_without_a_tag_means_timms_default_tag() -> None:
    card = describe("timm:resnet50")
    assert card.name == "timm:resnet50"
    assert card.id == f"resnet50.{timm.models.get_pretrained_cfg('resnet50').tag}"
    assert card == dataclasses.replace(describe(f"timm:{card.id}"), name="timm:resnet50")


def test_a_deprecated_timm_name_means_its_successor() -> None:
    assert describe("timm:tf_efficientnet_b0_ns").id == "tf_efficientnet_b0.ns_jft_in1k"


def test_a_bare_encoder_has_neither_head_nor_labels() -> None:
    for name in ("timm:vit_base_patch16_224.mae", "timm:vit_base_patch16_clip_224.openai"):
        assert (describe(name).head, describe(name).labels) == ("none", "none")


def test_the_link_is_sigmoid_for_a_pairwise_sigmoid_loss() -> None:
    assert describe("open_clip:ViT-B-16-SigLIP/webli").link == "sigmoid"
    assert describe("open_clip:ViT-B-16/laion2b_s34b_b88k").link == "softmax"


def test_describing_a_model_builds_no_network() -> None:
    describe("timm:resnet18")
    started = time.process_time()
    card = describe("timm:vit_7b_patch16_dinov3")
    assert time.process_time() - started < 0.5
    assert card.transform is not None


@pytest.mark.parametrize(
    ("name", "kind", "unknown", "suggestion"),
    [
        ("timm:resnet5", "architecture of timm", "resnet5", "resnet50"),
        ("timm:resnet50.ra_in2k", "weights of resnet50 in timm", "ra_in2k", "resnet50.ra_in1k"),
        ("open_clip:ViT-B-33/openai", "architecture of open_clip", "ViT-B-33", "ViT-B-32"),
        ("open_clip:ViT-B-32/opnai", "weights of ViT-B-32 in open_clip", "opnai", "openai"),
        ("open_clip:vit/nothing-like-it", "architecture of open_clip", "vit", None),
        ("tim:resnet50", "library", "tim", "timm"),
        ("resnet50", "model", "resnet50", None),
    ],
)
def test_an_unknown_name_suggests_similar_ones(name: str, kind: str, unknown: str, suggestion: str | None) -> None:
    with pytest.raises(UnknownName, check=fields(name=unknown)) as caught:
        describe(name)
    assert caught.value.kind.startswith(kind)
    assert suggestion is None or suggestion in caught.value.suggestions
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("name", "known"), [("open_clip:ViT-B-32/zzz", ["openai", "laion400m_e31"]), ("timm:dpn68.zzz", ["dpn68.mx_in1k"])]
)
def test_an_unknown_tag_lists_the_known_ones(name: str, known: list[str]) -> None:
    with pytest.raises(UnknownName, check=fields(where=name, hint=known)):
        describe(name)


@pytest.mark.parametrize("name", ["timm:", "hf:", "open_clip:ViT-B-32", "hf:a/b/c", "hf:../../etc/passwd"])
def test_a_name_of_the_wrong_form_is_an_error(name: str) -> None:
    with pytest.raises(InputError) as caught:
        describe(name)
    assert name in str(caught.value)
    assert not isinstance(caught.value, UnknownName)


def test_open_clip_names_may_be_spelt_as_in_its_papers() -> None:
    assert describe("open_clip:ViT-B/32/laion2b-s34b-b79k").id == "ViT-B-32/laion2b_s34b_b79k"


@pytest.mark.parametrize(
    ("name", "dataset", "framework"),
    [
        ("resnet50.a1_in1k", "imagenet-1k", "supervised"),
        ("vit_small_patch16_224.augreg_in21k_ft_in1k", "imagenet-21k", "supervised"),
        ("convnext_tiny.in12k_ft_in1k", "imagenet-12k", "supervised"),
        ("mvitv2_base_cls.fb_inw21k", "imagenet-21k", "supervised"),
        ("vit_base_patch16_clip_224.laion2b_ft_in12k_in1k", "laion-2b", "contrastive"),
        ("ViT-L-14.datacomp_xl_s13b_b90k", "datacomp-1b", "contrastive"),
        ("ViT-B-32.commonpool_m_laion_s128m_b4k", "commonpool", "contrastive"),
        ("resnet50.fb_swsl_ig1b_ft_in1k", "instagram-1b", "pseudo-label"),
        ("resnext101_32x8d.fb_wsl_ig1b_ft_in1k", "instagram-1b", "supervised"),
        ("tf_efficientnet_b7.ns_jft_in1k", "jft-300m", "pseudo-label"),
        ("vit_small_patch14_dinov2.lvd142m", "lvd-142m", "self-supervised"),
        ("convnextv2_tiny.fcmae_ft_in1k", "imagenet-1k", "self-supervised"),
        ("deit_tiny_distilled_patch16_224.fb_in1k", "imagenet-1k", "distilled"),
        ("xcit_small_12_p8_224.fb_dist_in1k", "imagenet-1k", "distilled"),
        ("samvit_base_patch16.sa1b", "unknown", "unknown"),
        ("resnet18", "unknown", "unknown"),
    ],
)
def test_dataset_and_framework_are_read_from_tags(name: str, dataset: str, framework: str) -> None:
    assert (tags.dataset(name), tags.framework(name)) == (dataset, framework)


def test_a_family_contains_all_depths_and_widths_of_one_design() -> None:
    assert {tags.family(name) for name in ("resnet18", "resnet101", "resnet50t", "wide_resnet50_2")} == {"resnet"}
    assert {tags.family(name) for name in ("tf_efficientnet_b0", "efficientnet_b3", "tf_efficientnet_lite0")} == {
        "efficientnet"
    }
    other = ["resnetv2_50", "skresnet34", "seresnet50", "seresnext26d_32x4d", "res2net50_26w_4s", "densenet121",
             "densenetblur121d", "inception_v3", "inception_v4", "inception_resnet_v2", "eva_giant_patch14_224",
             "eva02_base_patch14_448", "deit3_base_patch16_224", "mobilenetv2_100", "mobilenetv3_large_100"]  # fmt: skip
    assert len({tags.family(name) for name in other}) == len(other)


# Repositories of the hub, as `transformers` writes and reads them.


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that puts a configuration and an image processor into an otherwise empty hub cache."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))

    def put(repository: str, *parts: Any) -> None:
        folder = tmp_path / f"models--{repository.replace('/', '--')}"
        for part in parts:
            part.save_pretrained(folder / "snapshots" / "0123abc")
        (folder / "refs").mkdir(parents=True)
        (folder / "refs" / "main").write_text("0123abc")

    return put


def test_a_cached_classifier_is_described_from_its_configuration(cached: Any) -> None:
    config = transformers.ViTConfig(num_labels=1000, architectures=["ViTForImageClassification"])
    cached("someone/vit", config, transformers.ViTImageProcessor())
    card = describe("hf:someone/vit")
    assert (card.source, card.id, card.family) == ("transformers", "someone/vit", "vit")
    assert (card.architecture, card.head, card.labels) == ("ViTForImageClassification", "trained", "imagenet-1k")
    assert card.license == "unknown"
    assert "https://huggingface.co/someone/vit" in card.body


def test_dual_encoders_and_encoders_are_described_differently(cached: Any) -> None:
    cached("someone/siglip", transformers.SiglipConfig(), transformers.SiglipImageProcessor())
    cached("someone/dino", transformers.Dinov2Config(), transformers.BitImageProcessor())
    towers, encoder = describe("hf:someone/siglip"), describe("hf:someone/dino")
    assert (towers.head, towers.link, towers.framework) == ("zero-shot", "sigmoid", "contrastive")
    assert (encoder.head, encoder.labels, encoder.framework) == ("none", "none", "unknown")


def test_a_repository_without_an_image_processor_is_refused(cached: Any) -> None:
    cached("someone/text", transformers.BertConfig())
    with pytest.raises(MissingWeights, check=fields(where="hf:someone/text", problem="preprocessor_config.json")):
        describe("hf:someone/text")


def test_an_uncached_repository_is_an_error_without_delay_offline(cached: Any, tmp_path: Path) -> None:
    started = time.monotonic()
    check = fields(where="hf:someone/absent", problem=["config.json", str(tmp_path)], hint="hf download someone/absent")
    with pytest.raises(MissingWeights, check=check):
        describe("hf:someone/absent")
    assert time.monotonic() - started < 10  # about one second on an idle machine; the client alone retries for 30


def test_a_hub_that_does_not_answer_is_an_error_without_delay(cached: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://192.0.2.1")  # an address reserved for examples
    started = time.monotonic()
    with pytest.raises(MissingWeights, check=fields(problem="http://192.0.2.1")):
        describe("hf:someone/absent")
    assert time.monotonic() - started < 10  # about one second on an idle machine; the client alone retries for 30


@pytest.mark.parametrize(
    "processor",
    [
        transformers.ViTImageProcessor(),
        transformers.CLIPImageProcessor(),
        transformers.SiglipImageProcessor(),
        transformers.ConvNextImageProcessor(size={"shortest_edge": 224}),
        transformers.ConvNextImageProcessor(),
        transformers.EfficientNetImageProcessor(),
        transformers.EfficientNetImageProcessor(
            do_center_crop=True, rescale_factor=1 / 127.5, rescale_offset=True, do_normalize=False, include_top=False
        ),
    ],
    ids=lambda processor: type(processor).__name__,
)
def test_the_transform_of_a_processor_normalises_a_colour_as_the_processor(processor: Any) -> None:
    transform = from_transformers.transform(processor, "x")
    colour = (10, 120, 250)
    pixels = processor(images=Image.new("RGB", (500, 400), colour), return_tensors="np")["pixel_values"]
    assert pixels.shape[1:] == transform.size
    expected = (np.array(colour) / 255 - transform.mean) / transform.std
    np.testing.assert_allclose(pixels[0].mean((1, 2)), expected, atol=1e-4)


def test_a_processor_without_a_fixed_size_is_refused() -> None:
    processor = transformers.ViTImageProcessor(size={"longest_edge": 224})
    with pytest.raises(InputError, check=fields(where="x", problem="longest_edge")):
        from_transformers.transform(processor, "x")
