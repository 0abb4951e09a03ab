"""Models to report on, and a page opened in a browser."""

import numpy as np

from zoo.outputs import Outputs, Runs

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


def opened(browser, page):
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get(page.as_uri())
    WebDriverWait(browser, 60).until(lambda b: b.execute_script("return document.body.dataset.ready"))
