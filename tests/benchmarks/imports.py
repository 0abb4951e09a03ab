"""Importing large files: 10^6 rows of csv, and 100 models x 50,000 x 10 from one parquet file, read and stored.

    python tests/benchmarks/imports.py

Prints processor seconds and the peak of memory of a process of its own; expected on one core of an AMD EPYC: about 10 s and
1.2 GB for the csv, 35 s and 2 GB for the parquet file.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

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


def main() -> None:
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
        for file, what in (("a.csv", "csv, 10^6 rows of 10 classes"), ("b.parquet", "parquet, 100 x 50,000 x 10")):
            home = os.environ | {"ZOO_HOME": str(Path(folder, "home"))}
            subprocess.run([sys.executable, "-c", CHILD, str(Path(folder, file)), what], env=home, check=True)


if __name__ == "__main__":
    main()
