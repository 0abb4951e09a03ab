"""The report's page at its largest, in Chromium: its size, and the times until it is ready, drawn and updated.

    python tests/benchmarks/explorer.py [--small | 0 | 1]              # prints one line per size
    python tests/benchmarks/explorer.py --stored FOLDER [EXAMPLES]     # a report on stored outputs, without a browser

The page is ready when everything can be read and clicked. Charts appear one after the other until all are drawn. An update
is the response to one click on a model's checkbox.

With `--stored`, outputs of 30 models on 50,000 examples of 1,000 classes are stored in a folder (3 GB), unless it already
has outputs. Another process writes the report, and prints the CPU time of each section and its own peak memory.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

from zoo.app.report import compose as composing
from zoo.app.report.compose import compose
from zoo.app.report.html import to_explorer
from zoo.app.report.inputs import ReportInputs
from zoo.outputs import store
from zoo.outputs.outputs import Outputs, Runs

SIZES = [(100, 10_000, 10), (30, 50_000, 1_000)]
TICKS = 5
SMALL = [(12, 2_000, 10), (6, 2_000, 200)]


def synthetic_runs(models: int, examples: int, classes: int) -> Runs:
    """Models with partly shared errors. They have temperatures, so the report covers all examples."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, examples)
    dtype = np.float16 if classes > 100 else np.float32  # saves memory for large outputs
    shared = rng.normal(size=(examples, classes)).astype(np.float32)
    outputs = []
    for model in range(models):
        z = shared + rng.normal(size=(examples, classes)).astype(np.float32)
        z[np.arange(examples), labels] += 2 + np.log(classes) / 2
        outputs.append(
            Outputs.from_arrays(f"m{model}", logits=z.astype(dtype), labels=labels, temperature=1.0, dataset="synthetic")
        )
    return Runs(outputs)


def browser() -> webdriver.Chrome:
    options = Options()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("headless=new", "no-sandbox", "disable-gpu"):
        options.add_argument(f"--{argument}")
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


def measure(session: webdriver.Chrome, page: Path) -> dict[str, float]:
    """Seconds until the page is ready, until all charts are drawn, and for a click on a checkbox (wall-clock and CPU)."""
    session.set_script_timeout(300)
    session.set_page_load_timeout(300)
    session.get("about:blank")
    session.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    session.get(page.as_uri())
    WebDriverWait(session, 300, 0.05).until(lambda b: b.execute_script("return document.body.dataset.ready"))
    ready = float(session.execute_script("return document.body.dataset.took")) / 1000
    both = "return document.getElementById('pair').dataset.complete && document.body.dataset.complete"
    drawn = float(WebDriverWait(session, 300).until(lambda b: b.execute_script(both))) / 1000
    found = []
    for _ in range(TICKS):
        before = busy(session)
        painted = session.execute_async_script("""
            const done = arguments[0], began = performance.now();
            document.querySelector("#model-table tbody .tick input").click();
            requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));""")
        found.append((painted / 1000, busy(session) - before))
    tick, tick_busy = np.median(found, 0)
    return {"ready": ready, "drawn": drawn, "tick": tick, "tick_busy": tick_busy}


def busy(session: webdriver.Chrome) -> float:
    """CPU seconds of the page's main thread, which other processes do not affect."""
    metrics = session.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return float({one["name"]: one["value"] for one in metrics}["TaskDuration"])


def store_outputs(models: int, examples: int, classes: int) -> None:
    """Store outputs without temperatures, one model at a time."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, examples)
    shared = rng.normal(size=(examples, classes)).astype(np.float32)
    for model in range(models):
        z = shared + rng.standard_normal((examples, classes), np.float32)
        z[np.arange(examples), labels] += 2 + np.log(classes) / 2
        store.save(Outputs.from_arrays(f"m{model}", logits=z.astype(np.float16), labels=labels, dataset="synthetic:test"))


def report_stored() -> None:
    """Write the report on the stored outputs, and print the CPU time of each section and the peak memory."""

    def timed(name, function):
        def call(*arguments, **options):
            began = time.process_time()
            try:
                return function(*arguments, **options)
            finally:
                print(f"{name:<16}{time.process_time() - began:7.1f} s", flush=True)

        return call

    composing.PARTS = tuple(timed(part.__name__, part) for part in composing.PARTS)
    composing.analyse = timed("analyse", composing.analyse)
    began = time.perf_counter()
    document = composing.compose(ReportInputs(store.open_runs("*", "synthetic:test")))
    text = timed("page", to_explorer)(document)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(
        f"{len(document.analysis.runs)} models x {len(document.analysis.runs.labels):,} examples: "
        f"{time.process_time():.0f} s of CPU time, {time.perf_counter() - began:.0f} s, {peak:.2f} GB; "
        f"page of {len(text.encode()) / 1e6:.1f} MB"
    )


def time_stored(folder: str, number: str | None = None) -> None:
    """Store outputs in a folder, unless it has some, and run the report in another process."""
    models, examples, classes = SIZES[1]
    os.environ["ZOO_HOME"] = folder
    if not Path(folder, "outputs").exists():
        store_outputs(models, int(number or examples), classes)
    subprocess.run([sys.executable, __file__, "--report"], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", type=int, metavar="{0,1}", help="default: both sizes")
    parser.add_argument("--small", action="store_true", help="two small sizes instead")
    parser.add_argument("--stored", nargs="+", metavar=("FOLDER", "EXAMPLES"), help="time the report on stored outputs")
    parser.add_argument("--report", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stored:
        time_stored(*options.stored)
        return
    if options.report:
        report_stored()
        return
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        print("chromium or chromedriver is not installed")
        return
    for size in SMALL if options.small else [SIZES[i] for i in options.sizes] or SIZES:
        began = time.perf_counter()
        document = compose(ReportInputs(synthetic_runs(*size)), steps=3)
        text = to_explorer(document)
        written = time.perf_counter() - began
        kept = re.search(r'"kept":(\{.*?\})', text)[1]
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.html"
            page.write_text(text)
            session = browser()
            try:
                found = measure(session, page)
            finally:
                session.quit()
        models, examples, classes = size
        print(
            f"{models} models x {examples:,} examples x {classes:,} classes: {len(text.encode()) / 1e6:.2f} MB {kept}; "
            f"written in {written:.0f} s; ready in {found['ready']:.2f} s, drawn in {found['drawn']:.2f} s; "
            f"updated in {1000 * found['tick']:.0f} ms ({1000 * found['tick_busy']:.0f} ms of CPU time)",
            flush=True,
        )


if __name__ == "__main__":
    main()
