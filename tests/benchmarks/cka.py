"""Minibatch CKA of 16 x 16 layers, n = 10,000, widths 256-2048, against pytorch-cka and torch_cka in the same run.

    python tests/benchmarks/cka.py --peer-python /path/to/venv/bin/python

Install the peers in a separate virtual environment (pip install pytorch-cka torch_cka setuptools). Without `--peer-python`,
this environment is used, and peers that are not installed are skipped. torch_cka takes minutes per batch, so peers run on
`--peer-batches` batches only, and their time is extrapolated in proportion to the rows. Our time is measured on all batches.
All get the same activations, and generating them is not timed. With one peer batch, the script also prints the largest
difference between a peer's CKA values and ours.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

WIDTHS = [256] * 3 + [512] * 4 + [1024] * 6 + [2048] * 3


def batch(index: int, rows: int, layers: int) -> list[list[torch.Tensor]]:
    """Activations of both networks: rectified random projections of inputs that they share."""
    generator = torch.Generator().manual_seed(index)
    inputs = torch.randn(rows, 64, generator=generator)
    networks = []
    for network in range(2):
        weights = torch.Generator().manual_seed(1000 + network)
        networks.append([(inputs @ torch.randn(64, width, generator=weights)).relu_() for width in WIDTHS[:layers]])
    return networks


def sizes(rows: int, size: int) -> list[int]:
    return [min(size, rows - start) for start in range(0, rows, size)]


def time_pytorch_cka(batches: list[list[list[torch.Tensor]]]) -> tuple[float, list[list[float]]]:
    """Seconds that pytorch-cka takes for the batches, and the CKA of the first batch."""
    sys.path.remove(str(Path(__file__).resolve().parent))  # its package has the same name as this script: cka
    from cka import cka_from_features

    with torch.inference_mode():
        start = time.perf_counter()
        results = [cka_from_features(*networks) for networks in batches]
        return time.perf_counter() - start, results[0].tolist()


def time_torch_cka(batches: list[list[list[torch.Tensor]]]) -> tuple[float, list[list[float]]]:
    """Seconds that torch_cka takes for the batches, with networks that only replay their activations, and the CKA."""
    from torch import nn
    from torch_cka import CKA

    class Playback(nn.Module):
        def __init__(self, network: int) -> None:
            super().__init__()
            self.network = network
            self.layers = nn.ModuleList(nn.Identity() for _ in batches[0][network])

        def forward(self, index: torch.Tensor) -> None:
            for layer, activations in zip(self.layers, batches[int(index)][self.network], strict=True):
                layer(activations)

    names = [f"layers.{k}" for k in range(len(batches[0][0]))]
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.arange(len(batches))), batch_size=1)
    peer = CKA(Playback(0), Playback(1), "a", "b", names, names)
    start = time.perf_counter()
    peer.compare(loader, loader)
    return time.perf_counter() - start, peer.export()["CKA"].tolist()


PEERS = {"pytorch-cka": time_pytorch_cka, "torch_cka": time_torch_cka}


def time_by_peer(name: str, python: str, rows: list[int], layers: int, threads: int) -> tuple[dict[str, Any] | None, str]:
    """Run a peer with another interpreter on batches of `rows` rows; return its result, or None and the error message."""
    sizes = ["--batch-rows", *map(str, rows), "--layers", str(layers), "--threads", str(threads)]
    done = subprocess.run([python, __file__, "--as-peer", name, *sizes], capture_output=True, text=True, check=False)
    if done.returncode:
        return None, done.stderr.strip().splitlines()[-1]
    return json.loads(done.stdout.splitlines()[-1]), ""


def time_ours(batches: list[list[list[torch.Tensor]]]) -> tuple[float, np.ndarray]:
    from diversity.similarity import MinibatchCKA

    meter = MinibatchCKA()
    start = time.perf_counter()
    for first, second in batches:
        meter.update(first, second)
    result = meter.result().to_numpy()
    return time.perf_counter() - start, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--batch-size", type=int, default=1500)
    parser.add_argument("--layers", type=int, default=16, help="how many of the 16 layers")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--peer-batches", type=int, default=1)
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--as-peer", choices=list(PEERS), help=argparse.SUPPRESS)
    parser.add_argument("--batch-rows", type=int, nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = options.batch_rows or sizes(options.rows, options.batch_size)
    if options.as_peer:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seconds, result = PEERS[options.as_peer]([batch(k, n, options.layers) for k, n in enumerate(rows)])
        print(json.dumps({"seconds": seconds, "result": result}))
        return

    runs = []
    for _ in range(options.repeats):
        runs.append(sum(time_ours([batch(k, n, options.layers)])[0] for k, n in enumerate(rows)))
    ours = statistics.median(runs)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{options.layers} x {options.layers} layers, {options.rows} rows in {len(rows)} batches, {options.threads} threads"
    )
    print(f"{'diversity.MinibatchCKA':32}{ours:10.2f} s   peak memory {memory:.0f} MB")

    few = rows[: options.peer_batches]
    fraction = sum(few) / options.rows
    _, check = time_ours([batch(0, few[0], options.layers)])
    for name in options.peers:
        peer, problem = time_by_peer(name, options.peer_python, few, options.layers, options.threads)
        if peer is None:
            print(f"{name} skipped: {problem}")
            continue
        estimated = f"measured on {fraction:.0%} of the rows: {peer['seconds']:.1f} s" if fraction < 1 else "measured"
        print(f"{name:32}{peer['seconds'] / fraction:10.2f} s   {estimated}")
        print(f"{'ratio':32}{peer['seconds'] / fraction / ours:10.1f}")
        if len(few) == 1:
            print(f"{'largest difference of CKA':32}{np.abs(check - np.array(peer['result'])).max():10.1e}")


if __name__ == "__main__":
    main()
