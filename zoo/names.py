"""Names: what is allowed in one, which known names are near a mistaken one, and the grammar of recipe names."""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from zoo.errors import InputError

MAX_BYTES = 120
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*\Z")
_WINDOWS_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?\Z", re.IGNORECASE)


def near(name: str, known: Iterable[str]) -> str:
    """A clause for an error message: the known names nearest to `name`, or nothing.

    >>> near("resnet50-cosin", ["resnet50-cosine", "resnet20-cosine", "vgg19"])
    '; did you mean resnet50-cosine?'
    """
    folded = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), folded, n=3, cutoff=0.6)
    likeness = [difflib.SequenceMatcher(None, candidate, name.lower()).ratio() for candidate in close]
    close = [candidate for candidate, ratio in zip(close, likeness, strict=True) if ratio >= likeness[0] - 0.05]
    return f"; did you mean {' or '.join(folded[c] for c in close)}?" if close else ""


def check_safe(name: str, what: str = "name") -> str:
    """`name` if it can be a file's name on every system: no separators, `..`, NUL, drive letters or great length."""
    if len(name.encode()) > MAX_BYTES:
        raise InputError(f"{what} {name[:40]!r}... is {len(name.encode())} bytes long, expected at most {MAX_BYTES}")
    if not _SAFE.match(name) or ".." in name or name.endswith(".") or _WINDOWS_DEVICE.match(name):
        raise InputError(f"{what} {name!r}: expected letters, digits and . _ + - only, starting with a letter or digit")
    return name


@dataclass(frozen=True)
class RecipeName:
    """`arch-objective[-sSEED][.dataset]`, e.g. `resnet50-cosine-s2.in1k`."""

    architecture: str
    objective: str
    seed: int = 0
    dataset: str | None = None

    def __str__(self) -> str:
        seed = f"-s{self.seed}" if self.seed else ""
        return f"{self.architecture}-{self.objective}{seed}{'.' + self.dataset if self.dataset else ''}"


def parse_recipe(name: str, architectures: Iterable[str] | None, objectives: Iterable[str]) -> RecipeName | None:
    """The parts of a recipe name, or None where it is not of that form; any architecture will do where none are given.

    Both parts may contain hyphens (`wrn-16-8-label-smoothing`), so the known objectives decide where to cut. `.` may stand
    in an architecture too, so the dataset is what follows the last one after the objective.

    >>> str(parse_recipe("wrn-16-8-label-smoothing-s3.cifar10", None, ["label-smoothing"]).architecture)
    'wrn-16-8'
    """
    objective = "|".join(re.escape(o) for o in sorted(objectives, key=len, reverse=True))
    form = re.compile(
        rf"(?P<arch>.+?)-(?P<objective>(?:{objective})(?:\+(?:{objective}))*)(?:-s(?P<seed>\d+))?(?:\.(?P<data>[a-z0-9-]+))?\Z"
    )
    match = form.match(name)
    if not match or (architectures is not None and match["arch"] not in set(architectures)):
        return None
    return RecipeName(match["arch"], match["objective"], int(match["seed"] or 0), match["data"])
