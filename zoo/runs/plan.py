"""`plan`: what `zoo.run` would compute, how much it would write, and how long that would take."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.core.types import Precision
from zoo.datasets import Dataset, ResizeMode
from zoo.outputs.store import SHARD_ROWS, Shard
from zoo.runs import jobs
from zoo.runs.engines.job import Failures, Job
from zoo.runs.engines.stages import STAGES, Stages
from zoo.runs.jobs import Engine, Options

if TYPE_CHECKING:
    from zoo.models.model import Model


@dataclass(frozen=True)
class Group:
    """Models that would run together."""

    models: dict[str, int]  # bytes to write, by name of the model
    images: int  # to decode
    sample: int  # images that the times were measured on
    seconds: float  # estimated from the sample
    slowest: str  # the slowest stage


@dataclass(frozen=True)
class Plan:
    """What a run would do."""

    dataset: str | None
    groups: list[Group]
    stored: list[str]  # models whose outputs exist
    unavailable: dict[str, str]  # models whose weights are not on this machine: "to download", "to train", ...

    @property
    def bytes(self) -> int:
        """The number of bytes to write."""
        return sum(sum(group.models.values()) for group in self.groups)

    @property
    def seconds(self) -> float:
        """The estimated time."""
        return sum(group.seconds for group in self.groups)


def plan(
    models: "str | Model | Sequence[str | Model]",
    data: "str | Dataset | None" = None,
    pretrained: bool = True,
    fresh: bool = False,
    embeddings: bool | None = None,
    home: str | Path | None = None,
    batch_size: int = 64,
    precision: Precision = "float32",
    resize_mode: ResizeMode | None = None,
    engine: Engine = "local",
    device: str | Sequence[str] | None = None,
    workers: int | None = None,
    shard_rows: int = SHARD_ROWS,
    fold: bool = False,
) -> Plan:
    """Return what `zoo.run` would do with the same arguments, without storing outputs, training or downloading weights.

    Each model runs on one batch to measure its time. The estimate is for this machine, even if the engine is `ray`.

    >>> import tempfile
    >>> planned = plan("timm:test_resnet", data="digits:test[:8]", pretrained=False, home=tempfile.mkdtemp())
    >>> [(list(group.models), group.images) for group in planned.groups]
    [(['timm:test_resnet'], 8)]
    """
    request = jobs.request(
        models, data, pretrained, fresh, embeddings, home, batch_size, precision, resize_mode, engine, device, workers,
        shard_rows, fold,
    )  # fmt: skip
    unavailable: dict[str, str] = {}
    for choice in list(request.choices):
        state = jobs.missing_weights(choice, request)
        if state is not None:
            unavailable[choice.name] = state
            request.choices.remove(choice)
    found, stored, failed = list[Group](), list[str](), Failures()
    for results in jobs.groups(jobs.find(request, failed), request.options):
        group = [result for result in results if isinstance(result, Job)]
        stored += [result.name for result in results if not isinstance(result, Job)]
        if group:
            found.append(_measured(group, request.options))
        results.clear()
    for error in failed.values():
        raise error
    return Plan(request.spec, found, stored, unavailable)


def _measured(group: Sequence[Job], options: Options) -> Group:
    """Return a group with its times, measured on one batch."""
    from zoo.runs.engines.extraction import Member, failures, sample
    from zoo.runs.engines.loader import useful_workers

    rows_of, shards_of = group[0].folder.identity.rows, {job.name: _missing(job, options.fresh) for job in group}
    shards = {shard for numbers in shards_of.values() for shard in numbers}
    if not shards:  # only the manifests are missing
        return Group(dict.fromkeys(shards_of, 0), 0, 0, 0.0, "write")
    rows, stages = group[0].batches(min(shards))[0], Stages()
    members = [Member(job, options.devices[0], stages) for job in group]
    sample(members, rows)  # warms up
    stages.seconds = dict.fromkeys(STAGES, 0.0)
    computed = sample(members, rows)
    for error in failures(members).values():
        raise error
    images = sum(len(rows_of(shard)) for shard in shards)
    workers = useful_workers(options.workers, images, len(options.devices))
    seconds = _seconds(stages, workers, options.devices) * images / len(rows)
    stages.workers = workers * len(options.devices)
    missing = {name: sum(len(rows_of(shard)) for shard in numbers) for name, numbers in shards_of.items()}
    sizes = {name: round(_bytes(shard) * missing[name] / len(rows)) for name, shard in computed.items()}
    return Group(sizes, images, len(rows), seconds, stages.slowest)


def _missing(job: Job, fresh: bool) -> list[int]:
    everything = fresh and job.folder.finished
    return [shard for shard in range(job.folder.identity.shards) if everything or not job.folder.has(shard)]


def _seconds(stages: Stages, workers: int, devices: Sequence[str]) -> float:
    """Return how long the sample would take in a run, where workers load images while the devices compute."""
    import torch

    loading, computing = stages.loading, stages.computing
    if not workers:
        return (loading + computing) / len(devices)
    if torch.device(devices[0]).type != "cpu":
        return max(computing, loading / workers) / len(devices)
    # The workers and the threads of the network share the cores.
    cores, threads = os.cpu_count() or 1, torch.get_num_threads()
    return max(computing, (computing * threads + loading) / cores)


def _bytes(shard: Shard) -> int:
    arrays = (shard.values, shard.embeddings, shard.labels, shard.targets)
    ids = sum(len(row_id.encode("utf-8", "surrogateescape")) + 8 for row_id in shard.ids)
    return ids + sum(array.nbytes for array in arrays if array is not None)
