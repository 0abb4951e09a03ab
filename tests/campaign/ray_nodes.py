"""A run over a Ray cluster of two nodes, one of which is killed while it works; both are processes of this machine.

    python tests/campaign/ray_nodes.py FOLDER

says what was wrong in a line that begins with "problem:", among whatever Ray prints. It is a process of its own, because a
forked child cannot use a cluster of its parent's.
"""

import sys
import threading
import time
import warnings
from pathlib import Path

_OPTIONS = {"data": "digits:test", "pretrained": False, "shard_rows": 8, "batch_size": 4, "progress": False}
_MODEL = "timm:test_vit"


def node_killed(folder: Path) -> str | None:
    """What differs from a run on this machine alone, or None."""
    warnings.simplefilter("ignore")
    import ray
    from ray.cluster_utils import Cluster

    from zoo.runs import runner

    whole = runner.run(_MODEL, home=folder / "whole", **_OPTIONS)[_MODEL].path
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    home, there = folder / "spread", list[int]()

    def kill() -> None:
        while (written := len(list(home.glob("outputs/*/*/*.safetensors")))) < 3:
            time.sleep(0.01)
        cluster.remove_node(second, allow_graceful=False)
        there.append(written)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    try:
        spread = runner.run(_MODEL, home=home, engine="ray", **_OPTIONS)[_MODEL].path
        killer.join(60)
        if not there or there[0] >= len(list(whole.glob("*.safetensors"))):
            return "the run was over before the node was killed"
        names = sorted(path.name for path in whole.iterdir())
        if sorted(path.name for path in spread.iterdir()) != names:
            return f"other files than undisturbed: {sorted(path.name for path in spread.iterdir())}, expected {names}"
        different = [name for name in names if (whole / name).read_bytes() != (spread / name).read_bytes()]
        return f"other bytes than undisturbed: {different}" if different else None
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    problem = node_killed(Path(sys.argv[1]))
    if problem:
        print(f"problem: {problem}")
