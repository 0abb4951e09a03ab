"""Tiny networks of other libraries, saved in the formats of those libraries."""

from pathlib import Path

import torch
import transformers
from PIL import Image

from zoo.datasets.images import decoded

# An open_clip architecture with few and narrow layers.
OPEN_CLIP = {
    "embed_dim": 32,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 64, "head_width": 32, "patch_size": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
}
# Configurations of a ViT of transformers and of its image processor.
VIT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}
PROCESSOR = {"size": {"height": 32, "width": 32}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}


def transformed(model: object, images: torch.Tensor) -> torch.Tensor:
    """Return the model inputs for uint8 images [N, 3, H, W]."""
    return torch.stack([model.transform(image) for image in decoded(images)])


def pil_images(images: torch.Tensor) -> list[Image.Image]:
    return list(decoded(images))


def save_transformers(model: torch.nn.Module, folder: Path) -> str:
    """Save a model with an image processor as a folder in the format of the hub; return its name in the zoo."""
    model.save_pretrained(folder)
    transformers.ViTImageProcessor(**PROCESSOR).save_pretrained(folder)
    return f"file:{folder}"


def save_dual_encoder(folder: Path) -> tuple[transformers.CLIPModel, transformers.PreTrainedTokenizerFast]:
    """Save a CLIP model with a word-level tokenizer as a folder in the format of the hub; return both."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    torch.manual_seed(0)
    words = {word: number for number, word in enumerate(["<pad>", "<end>", "a", "photo", "of", "cat", "dog", "."])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", model_max_length=12)
    text = {"vocab_size": 8, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
            "max_position_embeddings": 12, "eos_token_id": 1, "bos_token_id": 0, "pad_token_id": 0}  # fmt: skip
    config = transformers.CLIPConfig(text_config=text, vision_config=VIT, projection_dim=16)
    model = transformers.CLIPModel(config).eval()
    save_transformers(model, folder)
    fast.save_pretrained(folder)
    return model, fast
