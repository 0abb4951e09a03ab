"""The explorer at its largest: size of the page, time until it is ready, drawn, and of one member's tick, in Chromium.

Ready is the page when everything can be read and clicked; charts follow one after the other until all are drawn.

`python tests/benchmarks/explorer.py [--small | 0 | 1]`; it prints one line per size.

`python tests/benchmarks/explorer.py --stored FOLDER [EXAMPLES]` stores outputs of 30 models on 50,000 examples of 1,000
classes in a folder (3 GB), unless they are there, and reports on them in another process. It prints the processor time of
each section and the largest memory of that process.
"""

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


def made(models: int, examples: int, classes: int) -> Runs:
    """Models with partly shared errors and temperatures, so that all examples are reported on."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, examples)
    wide = np.float16 if classes > 100 else np.float32  # half the memory where there is much of it
    shared = rng.normal(size=(examples, classes)).astype(np.float32)
    outputs = []
    for model in range(models):
        z = shared + rng.normal(size=(examples, classes)).astype(np.float32)
        z[np.arange(examples), labels] += 2 + np.log(classes) / 2
        outputs.append(
            Outputs.from_arrays(f"m{model}", logits=z.astype(wide), labels=labels, temperature=1.0, dataset="made")
        )
    return Runs(outputs)


def browser() -> webdriver.Chrome:
    options = Options()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("headless=new", "no-sandbox", "disable-gpu"):
        options.add_argument(f"--{argument}")
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


def measure(session: webdriver.Chrome, page: Path) -> dict[str, float]:
    """Seconds until the page is ready, drawn, and until a tick is painted; the last in processor time of the page too."""
    session.set_script_timeout(300)
    session.set_page_load_timeout(300)
    session.get("about:blank")
    session.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    session.get(page.as_uri())
    WebDriverWait(session, 300, 0.05).until(lambda b: b.execute_script("return document.body.dataset.ready"))
    clock = float(session.execute_script("return document.body.dataset.took")) / 1000
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
    return {"ready": clock, "drawn": drawn, "tick": tick, "tick_busy": tick_busy}


def busy(session: webdriver.Chrome) -> float:
    """Seconds of processor time that the page's thread has spent on tasks: they do not depend on what else is running."""
    metrics = session.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return float({one["name"]: one["value"] for one in metrics}["TaskDuration"])


def store_outputs(models: int, examples: int, classes: int) -> None:
    """Store outputs without temperatures, one model after the other."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, examples)
    shared = rng.normal(size=(examples, classes)).astype(np.float32)
    for model in range(models):
        z = shared + rng.standard_normal((examples, classes), np.float32)
        z[np.arange(examples), labels] += 2 + np.log(classes) / 2
        store.save(Outputs.from_arrays(f"m{model}", logits=z.astype(np.float16), labels=labels, dataset="made:test"))


def report_stored() -> None:
    """Report on the stored outputs, and print the processor time of each part and the largest memory."""

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
    document = composing.compose(ReportInputs(store.open_runs("*", "made:test")))
    text = timed("page", to_explorer)(document)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(
        f"{len(document.analysis.runs)} models x {len(document.analysis.runs.labels):,} examples: "
        f"{time.process_time():.0f} s of processor time, {time.perf_counter() - began:.0f} s, {peak:.2f} GB; "
        f"page of {len(text.encode()) / 1e6:.1f} MB"
    )


def stored() -> None:
    folder, *examples = sys.argv[sys.argv.index("--stored") + 1 :]
    models, most, classes = SIZES[1]
    os.environ["ZOO_HOME"] = folder
    if not Path(folder, "outputs").exists():
        store_outputs(models, int(examples[0]) if examples else most, classes)
    subprocess.run([sys.executable, __file__, "--report"], check=True)


def main() -> None:
    if "--stored" in sys.argv or "--report" in sys.argv:
        (stored if "--stored" in sys.argv else report_stored)()
        return
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        print("no chromium and chromedriver on this machine")
        return
    chosen = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    for size in SMALL if "--small" in sys.argv else [SIZES[i] for i in chosen] or SIZES:
        began = time.perf_counter()
        document = compose(ReportInputs(made(*size)), steps=3)
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
            f"a tick painted in {1000 * found['tick']:.0f} ms ({1000 * found['tick_busy']:.0f} ms of processor time)",
            flush=True,
        )


if __name__ == "__main__":
    main()
