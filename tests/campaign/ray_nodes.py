"""Run a model on a local Ray cluster of two nodes and kill one of the nodes during the run.

    python tests/campaign/ray_nodes.py FOLDER

prints a problem on a line that begins with "problem:"; Ray may print other lines. It is a separate script because a forked
child cannot use the cluster of its parent.
"""

import sys
import threading
import time
import warnings
from pathlib import Path

_OPTIONS = {"data": "digits:test", "pretrained": False, "shard_rows": 8, "batch_size": 4, "progress": False}
_MODEL = "timm:test_vit"


def node_killed(folder: Path) -> str | None:
    """Return how the stored files differ from those of a run without Ray, or None."""
    warnings.simplefilter("ignore")
    import ray
    from ray.cluster_utils import Cluster

    from zoo.runs import runner

    whole = runner.run(_MODEL, home=folder / "whole", **_OPTIONS)[_MODEL].path
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    home, shards_at_kill = folder / "spread", list[int]()

    def kill() -> None:
        while (written := len(list(home.glob("outputs/*/*/*.safetensors")))) < 3:
            time.sleep(0.01)
        cluster.remove_node(second, allow_graceful=False)
        shards_at_kill.append(written)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    try:
        spread = runner.run(_MODEL, home=home, engine="ray", **_OPTIONS)[_MODEL].path
        killer.join(60)
        if not shards_at_kill or shards_at_kill[0] >= len(list(whole.glob("*.safetensors"))):
            return "the run finished before the node was killed"
        names = sorted(path.name for path in whole.iterdir())
        if sorted(path.name for path in spread.iterdir()) != names:
            return f"files differ from a run without Ray: {sorted(path.name for path in spread.iterdir())}, expected {names}"
        different = [name for name in names if (whole / name).read_bytes() != (spread / name).read_bytes()]
        return f"bytes differ from a run without Ray: {different}" if different else None
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    problem = node_killed(Path(sys.argv[1]))
    if problem:
        print(f"problem: {problem}")
