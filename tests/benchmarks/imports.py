"""Time and memory of commands on stored outputs, which do not import torch, and of importing large files.

    python tests/benchmarks/imports.py

Each command and each import runs in a separate process; its CPU seconds and peak memory are printed. The limits of a command
on stored outputs (10,000 x 10 numbers per model; `@cifar10` is 62 models) are 3 s and 500 MB. The large files are a csv file
of 10^6 rows and a parquet file of 100 models x 50,000 x 10, which are read and stored. Expected on one core of an AMD EPYC:
about 10 s and 1.2 GB for the csv file, 35 s and 2 GB for the parquet file.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

MAX_SECONDS, MAX_MEGABYTES = 3, 500
COMMANDS = (
    "import logits.npy --kind logits --data of-npy --name a",
    "import logits.npz --data of-npz --name b",
    "import logits.csv --data of-csv --name c",
    "import logits.safetensors --data of-safetensors --name d",
    "outputs",
    "verify",
    "export resnet7-softmax.cifar10 r7x2.cifar10 -o outputs.safetensors",
    "export resnet7-softmax.cifar10 r7x2.cifar10 -o outputs.csv",
    "compare resnet7-softmax.cifar10 r7x2.cifar10",
    "calibrate resnet7-softmax.cifar10 resnet7-sigmoid.cifar10",
    "pairs @cifar10",
    "pairs @cifar10 --significance",
)
COMMAND = """
import atexit, resource, sys

def report():
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds, megabytes = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    verdict = "" if seconds <= float(sys.argv[2]) and megabytes <= float(sys.argv[3]) else "  ABOVE THE LIMIT"
    torch = "  imports torch" if "torch" in sys.modules else ""
    print(f"{sys.argv[1]:<75} {seconds:5.2f} s {megabytes:4.0f} MB{verdict}{torch}", file=sys.__stdout__)

atexit.register(report)
from zoo.app.main import app
sys.stdout = sys.stderr = open("printed.txt", "w")
app(sys.argv[1].split())
"""
CHILD = """
import resource, sys, time
import zoo, zoo.outputs.importing.importer, pandas
from zoo.outputs.store.writer import save
start = time.process_time()
runs = zoo.import_outputs(sys.argv[1], data=sys.argv[1][-3:])
for outputs in runs.values():
    save(outputs)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(f"{sys.argv[2]:<40} {len(runs):>4} models {time.process_time() - start:6.1f} s {peak:5.2f} GB")
"""


def time_commands() -> None:
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(10_000, 10)).astype("f4"), rng.integers(0, 10, 10_000)
    print(f"limits of a command{'':<57} {MAX_SECONDS:5.2f} s {MAX_MEGABYTES:4} MB", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder, "logits.npy"), z)
        np.savez(Path(folder, "logits.npz"), logits=z, labels=y)
        save_file({"logits": z, "labels": y}, Path(folder, "logits.safetensors"))
        header = ",".join([*(f"logit_{k}" for k in range(10)), "label"])
        np.savetxt(
            Path(folder, "logits.csv"), np.column_stack([z, y]), ["%.6g"] * 10 + ["%d"], ",", header=header, comments=""
        )
        home = os.environ | {"ZOO_HOME": str(Path(folder, "home"))}
        for command in COMMANDS:
            words = [sys.executable, "-c", COMMAND, command, str(MAX_SECONDS), str(MAX_MEGABYTES)]
            subprocess.run(words, cwd=folder, env=home, check=True)


def time_imports() -> None:
    import pandas as pd  # not earlier: the peak memory of a child is at least that of this process at its start

    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        rows, models, examples = 10**6, 100, 50_000
        table = pd.DataFrame(rng.dirichlet(np.ones(10), rows), columns=[f"prob_{k}" for k in range(10)])
        table.insert(0, "label", rng.integers(0, 10, rows))
        table.insert(0, "id", [f"image_{row:07d}.png" for row in range(rows)])
        table.to_csv(Path(folder, "a.csv"), index=False)
        table = pd.DataFrame(
            rng.normal(size=(models * examples, 10)).astype("f4"), columns=[f"logit_{k}" for k in range(10)]
        )
        table.insert(0, "label", np.tile(rng.integers(0, 10, examples), models))
        table.insert(0, "id", np.tile([f"{row:05d}" for row in range(examples)], models))
        table.insert(0, "model", np.repeat([f"m{model}" for model in range(models)], examples))
        table.to_parquet(Path(folder, "b.parquet"))
        del table
        for file, description in (("a.csv", "csv, 10^6 rows of 10 classes"), ("b.parquet", "parquet, 100 x 50,000 x 10")):
            home = os.environ | {"ZOO_HOME": str(Path(folder, "home"))}
            subprocess.run([sys.executable, "-c", CHILD, str(Path(folder, file)), description], env=home, check=True)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    time_commands()
    time_imports()


if __name__ == "__main__":
    main()
