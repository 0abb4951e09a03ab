"""Speed and memory of forward passes on the CPU, with freed memory kept for the next batch or released to the system.

    python tests/benchmarks/pages.py [resnet18 resnet50 efficientnet_b0] [--rounds 3]

Each process runs one timm network with random weights on batches of 64 images of 224 x 224 pixels; the two modes alternate.
Prints the median seconds per batch over rounds for both modes, the speed-up, and the ratio of peak memory (kept / released).
"""

import argparse
import contextlib
import json
import resource
import statistics
import subprocess
import sys
import time

BATCHES = 3


def measure(name: str, kept: bool) -> tuple[float, float]:
    """Seconds per batch after a warm-up batch, and the peak memory of the process in MB."""
    import timm
    import torch

    from zoo.core.pages import kept_pages

    network = timm.create_model(name).eval().to(memory_format=torch.channels_last)
    batch = torch.randn(64, 3, 224, 224).to(memory_format=torch.channels_last)
    with torch.inference_mode(), kept_pages() if kept else contextlib.nullcontext():
        network(batch)
        began = time.perf_counter()
        for _ in range(BATCHES):
            network(batch)
        seconds = (time.perf_counter() - began) / BATCHES
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=["resnet18", "resnet50", "efficientnet_b0"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--as-child", choices=["released", "kept"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_child:
        print(json.dumps(measure(options.networks[0], options.as_child == "kept")))
        return
    print(f"{'':20}{'released':>12}{'kept':>8}{'speed-up':>15}{'memory':>9}")
    for name in options.networks:
        found: dict[str, list[tuple[float, float]]] = {"released": [], "kept": []}
        for _ in range(options.rounds):
            for mode, values in found.items():
                command = [sys.executable, __file__, name, "--as-child", mode]
                values.append(tuple(json.loads(subprocess.run(command, capture_output=True, check=True).stdout)))
        medians = [[statistics.median(column) for column in zip(*values, strict=True)] for values in found.values()]
        (released, released_memory), (kept, kept_memory) = medians
        ratios = f"{released / kept:15.2f}{kept_memory / released_memory:9.2f}"
        print(f"{name:20}{released:10.2f} s{kept:6.2f} s{ratios}", flush=True)


if __name__ == "__main__":
    main()
