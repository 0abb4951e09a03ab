"""`Figure`: one record per table or figure of the papers, with what it needs and the commands that make it."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zoo.app.figures.needs import Need
from zoo.app.figures.result import Result
from zoo.app.figures.study import Study
from zoo.cards.names import similar
from zoo.errors import InputError, UnknownName

PAPERS = {
    "representation": "Gontijo-Lopes et al. 2021, No One Representation to Rule Them All",
    "loss": "Kornblith et al. 2021, Why Do Better Loss Functions Lead to Less Transferable Features?",
    "demystifying": "Demystifying Loss Functions for Classification, the earlier version of that paper",
    "ensemble": "not in the papers",
}
# Models of most examples: three objectives with two seeds each; and the recipes of Kornblith et al. 2021.
DIGITS, IMAGENET = "'resnet8-s*.digits'", "'resnet50-*.in1k' --data in1k"
_NUMBER = re.compile(r"(?:([A-Z])\.|[a-z]{2,})?(\d*)([a-z]?)")  # C.5, 2a, pareto


@dataclass(frozen=True)
class Figure:
    """A table or figure. Its key names paper and number: `loss/5a` is Figure 5a of Kornblith et al., `loss/table-1` Table 1.

    Args:
        key: of the figure.
        title: what the figure shows.
        make: computes the figure of a `Study`; its keyword-only parameters are the figure's settings.
        needs: what models and data must have, checked before anything is computed.
        example: arguments of `zoo figure` that make the figure from small models of the digits.
        imagenet: arguments that reproduce the paper's version; " after " separates commands that must be run before.
        why_not: why there is no example.
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
        """Sort key: the order of the paper, with tables before figures of the same number."""
        paper, _, number = self.key.partition("/")
        letter, count, part = _NUMBER.fullmatch(number.removeprefix("table-")).groups()  # type: ignore[union-attr]
        return list(PAPERS).index(paper), letter or "", int(count or 0), not number.startswith("table-"), part

    @property
    def place(self) -> str:
        """Number in the paper.

        >>> Figure("loss/table-C.1", "", make=Result).place
        'Table C.1'
        """
        number = self.key.partition("/")[2]
        if self.key.startswith("ensemble/"):
            return "–"
        return f"Table {number.removeprefix('table-')}" if number.startswith("table-") else f"Fig. {number}"

    @property
    def options(self) -> dict[str, Any]:
        """Settings of this figure with their defaults."""
        signature = inspect.signature(self.make)
        return {p.name: p.default for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY}

    def missing(self, study: Study) -> str | None:
        """Return why the figure cannot be made from these models and data, as far as is known before any model runs."""
        return next((reason for need in self.needs if (reason := need.missing(study))), None)

    def of(self, study: Study, settings: Mapping[str, str] | None = None) -> Result:
        """Return the figure of these models and data.

        Args:
            study: the models and data.
            settings: values of `options` as text.
        """
        reason = self.missing(study)
        if reason is not None:
            raise InputError(reason, where=self.key)
        values = {name: self._setting(name, text) for name, text in (settings or {}).items()}
        try:
            return self.make(study, **values)
        except InputError as error:
            if error.where is None:
                error.inside(self.key)
            raise

    def _setting(self, name: str, text: str) -> Any:
        if name not in self.options:
            hint = f"Settings of this figure: {', '.join(self.options) or 'none'}"
            raise UnknownName(kind="setting", name=name, suggestions=similar(name, self.options), where=self.key, hint=hint)
        default = self.options[name]
        kind = tuple if isinstance(default, tuple) else float if default is None else type(default)
        try:
            return tuple(text.split(",")) if kind is tuple else kind(text)
        except ValueError:
            expected = "a number" if default is None else f"a value such as {default}"
            raise InputError(where=self.key, argument=name, expected=expected, found=text) from None


FIGURES: dict[str, Figure] = {}


def figure(
    key: str, title: str, needs: Sequence[Need] = (), example: str | None = None, imagenet: str = "", why_not: str = ""
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Register a function of a `Study` as the figure of a key; the arguments are those of `Figure`.

    One function may be registered under several keys.
    """

    def register(make: Callable[..., Result]) -> Callable[..., Result]:
        if key in FIGURES:
            raise ValueError(f"figure {key!r} is registered twice")
        FIGURES[key] = Figure(key, title, make, tuple(needs), example, imagenet, why_not)
        return make

    return register


def find(key: str) -> Figure:
    """Return the figure of a key, or raise an error that suggests similar keys."""
    if key not in FIGURES:
        hint = "`zoo figure --list` lists all figures"
        raise UnknownName(kind="figure", name=key, suggestions=similar(key, FIGURES), hint=hint)
    return FIGURES[key]
