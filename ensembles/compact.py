"""What the searches keep of each model and example: the label's probability, and the best other class with its own.

M N (4 + 4 + 4) bytes for float32 instead of M N K 4: made in one pass that also checks every row.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from ensembles.library import Library
from ensembles.scores import top_class


@dataclass(frozen=True, eq=False)
class Table:
    """For M models and N examples, [M, N] each."""

    label: torch.Tensor  # probability of the true class
    other: torch.Tensor  # greatest probability among the other classes; -1 where there is no other class
    other_class: torch.Tensor  # the first class that has it, int32

    def at(self, examples: torch.Tensor) -> "Table":
        """The table of some examples."""
        return Table(*(column.index_select(1, examples) for column in (self.label, self.other, self.other_class)))

    def right(self, labels: torch.Tensor) -> torch.Tensor:
        """[M, N] whether each model alone is right; of equal probabilities the first class is predicted."""
        return (self.label > self.other) | ((self.label == self.other) & (labels < self.other_class))


def tabulate(library: Library, advance: Callable[[], None] = lambda: None) -> Table:
    """The table of a library, in one pass over it; `advance` is called after each model."""
    shape = (len(library), len(library.labels))
    label = torch.empty(shape, dtype=library.dtype, device=library.device)
    other = torch.empty_like(label)
    other_class = torch.empty(shape, dtype=torch.int32, device=library.device)
    spans = [(span, library.labels[span, None]) for span in library.spans()]
    scratch = torch.empty((len(spans[0][1]), library.num_classes), dtype=library.dtype, device=library.device)
    totals = torch.empty_like(label[0])
    for model in range(len(library)):
        least = 0.0
        for span, truth in spans:
            stored = library.stored(model, span)
            if has_signs(stored):
                least = -math.inf  # the check will look more closely
            p = scratch[: len(truth)].copy_(stored)
            torch.sum(p, 1, out=totals[span])  # NaN shows here
            torch.gather(p, 1, truth, out=label[model, span, None])
            p.scatter_(1, truth, -1)
            top = top_class(p)[:, None]
            torch.gather(p, 1, top, out=other[model, span, None])
            other_class[model, span, None] = top
        library.check(model, totals, least)
        advance()
    return Table(label, other, other_class)


def has_signs(values: torch.Tensor) -> bool:
    """Whether any sign bit is set, as in negative numbers and -0. Read as whole numbers: float16 has no fast minimum."""
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[values.element_size()]
    return bool(values.view(whole).amin() < 0)
