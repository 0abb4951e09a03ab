"""The Ray engine: the workers of a Ray cluster compute and write the same shards.

Ray Data hands shard numbers to a pool of actors. Each actor loads the models of a group once, computes its shards as the
local engine does, and writes them into the folders of the runs, which must be on a file system that all machines share. Only
the numbers go through Ray. If a machine is lost, another one gets its shard.
"""

import json
import logging
import warnings
from collections.abc import Sequence
from typing import Any

from zoo.errors import ZooError
from zoo.runs.engines.extraction import Member, extract, failures
from zoo.runs.engines.job import Failures, Job, Report
from zoo.runs.engines.loader import useful_workers
from zoo.runs.engines.stages import STAGES, Stages


def run(jobs: Sequence[Job], shards: Sequence[int], devices: Sequence[str], report: Report, stages: Stages) -> Failures:
    """Compute shards on the cluster that this process is connected to, or on a new one of this machine's cores.

    Args:
        jobs: the models that run together, on the same dataset.
        shards: numbers of the shards.
        devices: the first one decides whether actors use CUDA or the CPU.
        report: called with the number of images of each finished shard.
        stages: records the time of each stage, summed over the workers of the cluster.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ray's own imports
            import ray
            import ray.data
            import ray.exceptions
    except ImportError as error:
        hint = "Run `pip install 'model-zoo-diversity[ray]'`"
        raise ZooError("ray is not installed", argument="engine", found="ray", hint=hint) from error
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    resources = ray.cluster_resources()
    gpus = int(resources.get("GPU", 0)) if devices[0].startswith("cuda") else 0
    actors = min(len(shards), gpus or int(resources.get("CPU", 1)))
    numbers = ray.data.from_items([{"shard": shard} for shard in shards], override_num_blocks=len(shards))
    written = numbers.map(
        _Writer,
        fn_constructor_args=(list(jobs), "cuda" if gpus else "cpu"),
        compute=ray.data.ActorPoolStrategy(size=actors),
        num_cpus=1,
        num_gpus=1 if gpus else None,
    )
    failed: Failures = {}
    try:
        for row in written.iter_rows():
            stages.add(json.loads(row["seconds"]))
            report(int(row["images"]))
            for name, problem in json.loads(row["failures"]).items():
                failed.setdefault(name, ZooError(f"a worker of the Ray cluster failed: {problem}", where=name))
    except ray.exceptions.RayError as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        names = ", ".join(job.name for job in jobs)
        raise ZooError(f"a worker of the Ray cluster failed: {lines[-1] if lines else error}", where=names) from error
    return failed


class _Writer:
    """An actor: models on a device, which compute and write the shards they are given."""

    def __init__(self, jobs: Sequence[Job], device: str) -> None:
        self.job, self.device = jobs[0], device
        self.stages = Stages()
        self.members = [Member(job, device, self.stages) for job in jobs]

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        shard = int(row["shard"])
        images = len(self.job.folder.identity.rows(shard))
        # On the CPU there is an actor per core already.
        workers = 0 if self.device == "cpu" else useful_workers(self.job.workers, images, 1)
        self.stages.seconds = dict.fromkeys(STAGES, 0.0)
        extract(self.members, [shard], workers, lambda count: None)
        problems = {name: f"{type(error).__name__}: {error}" for name, error in failures(self.members).items()}
        return {"images": images, "failures": json.dumps(problems), "seconds": json.dumps(self.stages.seconds)}
