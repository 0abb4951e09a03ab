"""The Ray engine: the workers of a Ray cluster compute and write the same shards.

Ray Data hands shard numbers to a pool of actors. Each actor loads the model once, computes its shards as the local engine
does, and writes them into the run's folder, which must be on a file system that all machines share. Only the numbers go
through Ray. If a machine is lost, another one gets its shard.
"""

import logging
import warnings
from collections.abc import Sequence
from typing import Any

from zoo.errors import ZooError
from zoo.runs.engines.extraction import Job, Report, extract
from zoo.runs.engines.loader import useful_workers


def run(job: Job, shards: Sequence[int], devices: Sequence[str], report: Report) -> None:
    """Compute shards on the cluster that this process is connected to, or on a new one of this machine's cores.

    Args:
        job: the model and the dataset.
        shards: numbers of the shards.
        devices: the kind of the first one, CUDA or CPU, is used.
        report: called with the number of images of each finished shard.
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
        fn_constructor_args=(job, "cuda" if gpus else "cpu"),
        compute=ray.data.ActorPoolStrategy(size=actors),
        num_cpus=1,
        num_gpus=1 if gpus else None,
    )
    try:
        for row in written.iter_rows():
            report(int(row["images"]))
    except ray.exceptions.RayError as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise ZooError(f"a worker of the Ray cluster failed: {lines[-1] if lines else error}", where=job.name) from error


class _Writer:
    """An actor: a model on a device, which computes and writes the shards it is given."""

    def __init__(self, job: Job, device: str) -> None:
        self.job = job
        self.model = job.load(device)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        shard = int(row["shard"])
        images = len(self.job.folder.identity.rows(shard))
        # On the CPU there is an actor per core already.
        workers = 0 if self.model.device.type == "cpu" else useful_workers(self.job.workers, images, 1)
        extract(self.job, self.model, [shard], workers, lambda count: None)
        return {"images": images}
