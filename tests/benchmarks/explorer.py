"""The explorer at its largest: size of the page, time until it is ready, and of one member's tick, in Chromium.

`python tests/benchmarks/explorer.py [--small | 0 | 1]`; it prints one line per size.
"""

import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

from zoo.app.report.compose import compose
from zoo.app.report.explorer import to_explorer
from zoo.app.report.material import Material
from zoo.outputs import Outputs, Runs

SIZES = [(100, 10_000, 10), (30, 50_000, 1_000)]
SMALL = [(12, 2_000, 10), (6, 2_000, 200)]


def made(models: int, examples: int, classes: int) -> Runs:
    """Models with partly shared errors and temperatures, so that all examples are reported on."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, examples)
    shared = rng.normal(size=(examples, classes)).astype(np.float32)
    outputs = []
    for model in range(models):
        z = shared + rng.normal(size=(examples, classes)).astype(np.float32)
        z[np.arange(examples), labels] += 2 + np.log(classes) / 2
        outputs.append(Outputs.from_arrays(f"m{model}", logits=z, labels=labels, temperature=1.0, dataset="made"))
    return Runs(outputs)


def browser() -> webdriver.Chrome:
    options = Options()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("headless=new", "no-sandbox", "disable-gpu"):
        options.add_argument(f"--{argument}")
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


def measure(session: webdriver.Chrome, page: Path) -> dict[str, float]:
    """Milliseconds until the page is ready; of the numbers after a tick, and until they are painted."""
    session.get(page.as_uri())
    WebDriverWait(session, 300).until(lambda b: b.execute_script("return document.body.dataset.ready"))
    ready = float(session.execute_script("return document.body.dataset.took"))
    ticks, painted = [], []
    for _ in range(5):
        took = session.execute_async_script("""
            const done = arguments[0], began = performance.now();
            const box = document.querySelector("#model-table tbody .tick input");
            box.click();
            const numbers = Number(document.getElementById("any-ensemble").dataset.took);
            requestAnimationFrame(() => setTimeout(() => done([numbers, performance.now() - began])));""")
        ticks.append(took[0])
        painted.append(took[1])
    return {"ready": ready, "numbers": float(np.median(ticks)), "painted": float(np.median(painted))}


def main() -> None:
    chosen = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    for size in SMALL if "--small" in sys.argv else [SIZES[i] for i in chosen] or SIZES:
        began = time.perf_counter()
        document = compose(Material(made(*size)), steps=3)
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
            f"written in {written:.0f} s; ready in {found['ready'] / 1000:.2f} s; "
            f"a tick: {found['numbers']:.0f} ms of numbers, {found['painted']:.0f} ms until painted",
            flush=True,
        )


if __name__ == "__main__":
    main()
