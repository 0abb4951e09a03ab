"""What keeping memory from batch to batch is worth on the CPU: networks with and without, in processes that take turns.

    python tests/benchmarks/pages.py [resnet18 resnet50 efficientnet_b0] [--rounds 3]

Each process runs one network of timm, random weights, on batches of 64 images of 224 pixels. Printed are medians over
rounds of the seconds per batch and of the largest memory, and the ratios of the two ways.
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
    """Seconds per batch after a first one, and the most megabytes that the process held."""
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
    parser.add_argument("--as-child", choices=["given-back", "kept"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_child:
        print(json.dumps(measure(options.networks[0], options.as_child == "kept")))
        return
    print(f"{'':20}{'given back':>12}{'kept':>8}{'times as fast':>15}{'memory':>9}")
    for name in options.networks:
        found: dict[str, list[tuple[float, float]]] = {"given-back": [], "kept": []}
        for _ in range(options.rounds):
            for way, values in found.items():
                command = [sys.executable, __file__, name, "--as-child", way]
                values.append(tuple(json.loads(subprocess.run(command, capture_output=True, check=True).stdout)))
        (before, held), (after, holds) = (map(statistics.median, zip(*values, strict=True)) for values in found.values())
        print(f"{name:20}{before:10.2f} s{after:6.2f} s{before / after:15.2f}{holds / held:9.2f}", flush=True)


if __name__ == "__main__":
    main()
