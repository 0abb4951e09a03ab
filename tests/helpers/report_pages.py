"""Models to report on, and a page opened in a browser."""

import numpy as np
from PIL import Image

from zoo.app.report.compose import compose
from zoo.app.report.document import Document
from zoo.app.report.inputs import ReportInputs
from zoo.datasets import Dataset
from zoo.outputs.outputs import Outputs, Runs

ODD = [
    "<img src=x onerror=document.title='run'>",
    "=1+1|cmd, \"quoted\" 'twice'",
    "-🦉 שלום & </script><b>",
    "@" + "long" * 50,
    "\u202ereversed",
]


def made_runs(models: int = 4, examples: int = 400, classes: int = 5, seed: int = 0) -> Runs:
    """Models with partly shared errors, too sure of themselves by different factors."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, examples)
    shared = rng.normal(size=(examples, classes))
    outputs = []
    for model in range(models):
        z = shared + rng.normal(size=(examples, classes)) + 2 * np.eye(classes)[labels]
        outputs.append(Outputs.from_arrays(f"m{model}", logits=z * (model + 1), labels=labels, dataset="made"))
    return Runs(outputs)


def odd_document() -> Document:
    """A report whose models, classes and ids are all `ODD`."""
    ids = [f"{ODD[i % 5]}{i}" for i in range(400)]
    runs = Runs(
        Outputs.from_arrays(name, logits=o.logits, labels=o.labels, classes=ODD, ids=ids)
        for name, o in zip(ODD, made_runs(5).values(), strict=True)
    )
    images = Dataset("odd", "odd", ids, lambda _: Image.new("L", (8, 8)), "0")
    return compose(ReportInputs(runs, images=images), steps=2)


def opened(browser, page):
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get(page.as_uri())
    WebDriverWait(browser, 60).until(lambda b: b.execute_script("return document.body.dataset.complete"))
