"""How many models fit into memory at once."""

import os
from collections.abc import Sequence
from pathlib import Path

from zoo.runs.engines.job import Job

_MAX_FRACTION = 0.5  # of the free memory; the rest is for activations and images
_UNKNOWN = 8 * 2**30  # assumed if the system does not report it
_MAX_EMBEDDING = 4096  # dimensions, assumed before the first batch is computed


def available(devices: Sequence[str], copies: int) -> int:
    """Return how many bytes the models of a group may use.

    Args:
        devices: where the models run, each with a copy of its own.
        copies: how many copies of the models this machine's main memory must hold.
    """
    import torch

    free = [_free_host_memory() // copies]
    for device in devices:
        if torch.device(device).type == "cuda":
            free.append(torch.cuda.mem_get_info(device)[0] // devices.count(device))
    return int(_MAX_FRACTION * min(free))


def needed(job: Job) -> int:
    """Return how many bytes a model of a group needs: its weights, a shard that is computed and one that is written."""
    identity = job.folder.identity
    width = len(identity.classes) * (identity.kind == "logits") + _MAX_EMBEDDING * identity.embeddings
    return job.weights_bytes * (1 + job.fold) + 2 * 4 * width * min(identity.shard_rows, identity.examples)


def _free_host_memory() -> int:
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        free = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):  # not Linux
        try:
            free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
        except (AttributeError, ValueError, OSError):
            free = _UNKNOWN
    try:
        return min(free, int(Path("/sys/fs/cgroup/memory.max").read_text()) // 2)  # in a container
    except (OSError, ValueError):
        return free
