"""The progress of a campaign, stored as JSON lines and printed as a table."""

import json
from collections import Counter
from pathlib import Path


class State:
    """Numbers of tried cases and problems of failed cases, by kind.

    A line truncated by a kill is ignored, so its cases are tried again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.counts: Counter[str] = Counter()
        self.failed: dict[str, dict[str, str]] = {}
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                self._count(*json.loads(line))
            except ValueError:
                continue

    def tried(self, kind: str) -> int:
        return self.counts[kind]

    def add(self, kind: str, tried: int, failed: dict[str, str]) -> None:
        self._count(kind, tried, failed)
        with open(self.path, "a") as file:
            file.write(json.dumps([kind, tried, failed]) + "\n")

    def table(self) -> str:
        """Return a table with the numbers of cases tried, survived and failed by kind."""
        width = max([5, *map(len, self.counts)])
        lines = [f"{'kind':{width}}  {'tried':>8}  {'survived':>8}  {'failed':>6}"]
        groups = Counter[str]()
        wrong = Counter[str]()
        for kind, tried in self.counts.items():
            failed = len(self.failed.get(kind, {}))
            lines.append(f"{kind:{width}}  {tried:8}  {tried - failed:8}  {failed:6}")
            groups[kind.split()[0]] += tried
            wrong[kind.split()[0]] += failed
        lines += [f"{f'all {name}':{width}}  {n:8}  {n - wrong[name]:8}  {wrong[name]:6}" for name, n in groups.items()]
        return "\n".join(lines)

    def _count(self, kind: str, tried: int, failed: dict[str, str]) -> None:
        self.counts[kind] += tried
        if failed:
            self.failed.setdefault(kind, {}).update(failed)
