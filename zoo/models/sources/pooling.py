"""Networks of transformers as functions from pixels to one vector per image."""

from torch import Tensor, nn


class Pooled(nn.Module):
    """An encoder or an image tower as a function from pixels [N, C, H, W] to one vector per image [N, D]."""

    def __init__(self, model: nn.Module, first_token: bool = False) -> None:
        super().__init__()
        self.model = model
        self.first_token = first_token  # instead of the pooled output, where the weights have no pooling layer

    def forward(self, pixels: Tensor) -> Tensor:
        image_features = getattr(self.model, "get_image_features", None)
        output = self.model(pixel_values=pixels) if image_features is None else image_features(pixel_values=pixels)
        if isinstance(output, Tensor):
            return output
        pooled = getattr(output, "pooler_output", None)
        if pooled is None or self.first_token:
            hidden: Tensor = output.last_hidden_state
            return hidden[:, 0] if hidden.ndim == 3 else hidden.mean((2, 3))
        return pooled.flatten(1)


class Logits(nn.Module):
    """A classifier as a function from pixels to its logits; with its final layer taken out, to its embeddings."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        logits: Tensor = self.model(pixel_values=pixels).logits
        return logits
