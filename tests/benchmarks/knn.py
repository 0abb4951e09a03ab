"""k nearest neighbours, with k chosen from 1 to 200 by leave-one-out: 20,000 training rows, 5,000 test rows, D = 512.

    python tests/benchmarks/knn.py --peer-python /path/to/venv/bin/python

Ours is `KNNProbe().fit` (one list of neighbours for all k) and `predict`. The peer is the exact `IndexFlatIP` of faiss-cpu.
Install it in a separate virtual environment (pip install faiss-cpu). Without `--peer-python`, this environment is used, and
the peer is skipped if it is not installed. It searches the same normalised rows, for 201 neighbours of each training row and
200 of each test row. Its time does not include counting votes. The neighbours of the test rows are compared.
"""

import argparse
import json
import math
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from probe import features

MOST = 200


def time_peer(folder: Path, threads: int) -> dict[str, float]:
    import faiss

    faiss.omp_set_num_threads(threads)
    train, test = (np.load(folder / f"{name}.npy") for name in ("train", "test"))
    start = time.perf_counter()
    for rows in (train, test):
        faiss.normalize_L2(rows)
    index = faiss.IndexFlatIP(train.shape[1])
    index.add(train)
    index.search(train, MOST + 1)
    _, found = index.search(test, MOST)
    seconds = time.perf_counter() - start
    np.save(folder / "found.npy", found)
    return {"seconds": seconds}


def search_by_peer(python: str, folder: Path, threads: int) -> tuple[float, str]:
    """Run the peer with another interpreter; return its seconds on the files, or NaN and the error message."""
    command = [python, __file__, "--as-peer", str(folder), "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return math.nan, done.stderr.strip().splitlines()[-1]
    return json.loads(done.stdout.splitlines()[-1])["seconds"], ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=int, default=20_000)
    parser.add_argument("--test", type=int, default=5_000)
    parser.add_argument("--dims", type=int, default=512)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--as-peer", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_peer:
        print(json.dumps(time_peer(options.as_peer, options.threads)))
        return

    import torch

    from probes._neighbours import nearest
    from probes.knn import KNNProbe

    torch.set_num_threads(options.threads)
    x, y = features(options.train + options.test, options.dims, options.classes)
    train, test = x[: options.train], x[options.train :]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "train.npy", train)
        np.save(folder / "test.npy", test)
        ours, theirs = [], []
        for _ in range(options.repeats + 1):  # alternately; the first round warms up
            start = time.perf_counter()
            probe = KNNProbe(most=MOST).fit(train, y[: options.train])
            probe.predict(test)
            ours.append(time.perf_counter() - start)
            seconds, problem = search_by_peer(options.peer_python, folder, options.threads)
            theirs.append(seconds)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        median = statistics.median(ours[1:])
        print(f"{options.train} / {options.test} rows, D {options.dims}, k up to {MOST}, {options.threads} threads")
        print(f"{'KNNProbe, fit and predict':32}{median:9.2f} s   peak {memory:.0f} MB, k = {probe.k_}")
        if problem:
            print(f"faiss skipped: {problem}")
            return
        found = torch.from_numpy(np.load(folder / "found.npy"))
    units = [torch.nn.functional.normalize(torch.from_numpy(rows)) for rows in (test, train)]
    neighbours = nearest(units[0], units[1], MOST)
    same = (neighbours.sort(1).values == found.sort(1).values).float().mean()
    print(f"{'faiss IndexFlatIP, searches':32}{statistics.median(theirs[1:]):9.2f} s")
    ratios = [their / our for their, our in zip(theirs[1:], ours[1:], strict=True)]
    print(f"{'faiss / ours, median ratio':32}{statistics.median(ratios):9.2f}   ({min(ratios):.2f} to {max(ratios):.2f})")
    print(f"{'identical neighbours':32}{same:9.4%}")


if __name__ == "__main__":
    main()
