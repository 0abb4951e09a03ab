"""One record per table or figure of the papers: what it shows, what it needs, how to make it, here and with ImageNet."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zoo.app.figures.needs import Need
from zoo.app.figures.result import Result
from zoo.app.figures.study import Study
from zoo.cards.names import near
from zoo.errors import InputError, UnknownName

PAPERS = {
    "representation": "Gontijo-Lopes et al. 2021, No One Representation to Rule Them All",
    "loss": "Kornblith et al. 2021, Why Do Better Loss Functions Lead to Less Transferable Features?",
    "ensemble": "beyond the papers",
}
# What the examples name: three objectives, from seeds 0 and 1; and the recipes of the paper on losses.
DIGITS, IMAGENET = "'resnet8-s*.digits'", "'resnet50-*.in1k' --data in1k"
_PARTS = re.compile(r"(?:([A-Z])\.|[a-z]{2,})?(\d*)([a-z]?)")  # C.5, 2a, pareto


@dataclass(frozen=True)
class Figure:
    """A figure that can be asked for by its key: `loss/5a` is Figure 5a of the paper on losses, `loss/table-1` its Table 1.

    `example` and `imagenet` are the arguments that make it from small models of the digits, and of ImageNet; a figure that
    has no example says `why_not`. A need is asked for its reason before anything is computed.
    """

    key: str
    title: str
    make: Callable[..., Result]
    needs: Sequence[Need] = ()
    example: str | None = None
    imagenet: str = ""
    why_not: str = ""

    @property
    def order(self) -> tuple[object, ...]:
        """Where it stands in the list: as in its paper, tables before figures of the same number."""
        paper, _, number = self.key.partition("/")
        letter, count, part = _PARTS.fullmatch(number.removeprefix("table-")).groups()  # type: ignore[union-attr]
        return list(PAPERS).index(paper), letter or "", int(count or 0), not number.startswith("table-"), part

    @property
    def place(self) -> str:
        """Where it stands in its paper.

        >>> Figure("loss/table-C.1", "", make=Result).place
        'Table C.1'
        """
        number = self.key.partition("/")[2]
        if self.key.startswith("ensemble/"):
            return "–"
        return f"Table {number.removeprefix('table-')}" if number.startswith("table-") else f"Fig. {number}"

    @property
    def options(self) -> dict[str, Any]:
        """What can be set besides models and data, with the value it has otherwise."""
        signature = inspect.signature(self.make)
        return {p.name: p.default for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY}

    def missing(self, study: Study) -> str | None:
        """Why it cannot be made of these models and data, as far as that can be said before any model runs."""
        return next((reason for need in self.needs if (reason := need.missing(study))), None)

    def of(self, study: Study, settings: Mapping[str, str] | None = None) -> Result:
        """The figure of these models and data; settings as they were typed."""
        reason = self.missing(study)
        if reason is not None:
            raise InputError(f"{self.key}: cannot be made: {reason}")
        return self.make(study, **{name: self._setting(name, text) for name, text in (settings or {}).items()})

    def _setting(self, name: str, text: str) -> Any:
        if name not in self.options:
            known = ", ".join(self.options) or "none"
            raise InputError(f"{self.key}: no setting {name!r}{near(name, self.options)}; its settings are {known}")
        default = self.options[name]
        kind = tuple if isinstance(default, tuple) else float if default is None else type(default)
        try:
            return tuple(text.split(",")) if kind is tuple else kind(text)
        except ValueError:
            raise InputError(f"{self.key}: {name}={text}: expected a value like {default}") from None


FIGURES: dict[str, Figure] = {}


def figure(
    key: str, title: str, needs: Sequence[Need] = (), example: str | None = None, imagenet: str = "", why_not: str = ""
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Register a function of a `Study` as the figure of that key; one function may be several figures."""

    def register(make: Callable[..., Result]) -> Callable[..., Result]:
        if key in FIGURES:
            raise ValueError(f"figure {key!r} is registered twice")
        FIGURES[key] = Figure(key, title, make, tuple(needs), example, imagenet, why_not)
        return make

    return register


def find(key: str) -> Figure:
    """The figure of a key, or an error that offers the near ones."""
    if key not in FIGURES:
        raise UnknownName(f"no figure {key!r}{near(key, FIGURES)}; `zoo figure --list` names all of them")
    return FIGURES[key]
