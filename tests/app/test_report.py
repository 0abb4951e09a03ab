"""The report: its numbers are the API's, its page stands alone, and it works in a browser."""

import json
import re
import shutil
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import diversity
import ensembles
import probes
import zoo
from zoo.app.main import app
from zoo.app.report.building import build
from zoo.app.report.gathering import feature_material
from zoo.app.report.html import to_html
from zoo.app.report.markdown import to_markdown
from zoo.app.report.material import Material
from zoo.errors import InputError, ZooWarning
from zoo.outputs import Outputs, Runs


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


@pytest.fixture(scope="module")
def document():
    return build(Material(made_runs()), steps=3)


def test_numbers_are_those_of_the_api(document):
    calibrated = zoo.calibrate(made_runs(), 0.5, 0)
    assert document.numbers["inconsistency"] == diversity.pairwise(calibrated).matrix("inconsistency").to_dict()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZooWarning)
        path = ensembles.greedy(calibrated, steps=3)
    assert document.numbers["path"] == path.to_dict()
    pair = document.numbers["pair"]
    assert document.numbers["comparison"] == diversity.compare(*(calibrated[name] for name in pair)).to_dict()
    temperatures = {row["model"]: row["temperature"] for row in document.numbers["models"]}
    assert temperatures == {name: outputs.temperature for name, outputs in calibrated.items()}


def test_page_holds_the_numbers_and_fetches_nothing(document):
    page = to_html(document)
    numbers = json.loads(re.search(r'id="numbers">(.*?)</script>', page, re.DOTALL)[1])
    assert numbers["path"]["test_score"] == document.numbers["path"]["test_score"]
    shown = page.split("<script", 1)[0]
    for row in document.numbers["models"]:
        assert f"{100 * row['accuracy']:.1f}%" in shown
    assert not re.search(r'(src|href)="(?!data:|#)', shown)


def test_markdown_has_every_finding_and_model(document):
    text = to_markdown(document)
    assert all(finding.sentence in text for finding in document.findings)
    assert all(f"| {name} |" in text for name in ("m0", "m1", "m2", "m3"))


def test_predictions_alone_are_enough_for_the_errors():
    runs = made_runs()
    labels = next(iter(runs.values())).labels
    bare = Runs(Outputs.from_arrays(o.name, predictions=o.predictions(), labels=labels) for o in runs.values())
    document = build(Material(bare))
    assert [section.id for section in document.sections] == ["models", "errors"]
    assert document.numbers["inconsistency"] == diversity.pairwise(bare).matrix("inconsistency").to_dict()
    assert "errors" in to_html(document)


def test_one_model_is_refused():
    with pytest.raises(InputError, match="at least two"):
        build(Material(made_runs(models=1)))


def test_own_predictions_in_one_command(tmp_path):
    runs = made_runs(models=2)
    for name, outputs in runs.items():
        np.savez(tmp_path / f"{name}.npz", logits=outputs.logits, labels=outputs.labels)
    page = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["report", "--from", str(tmp_path), "-o", str(page)], catch_exceptions=False)
    assert result.exit_code == 0
    assert "m0" in page.read_text()
    table = pd.concat(
        pd.DataFrame({"model": n, "id": o.ids, "label": o.labels, "probabilities": list(o.probabilities())})
        for n, o in runs.items()
    )
    table.to_parquet(tmp_path / "all.parquet")
    arguments = ["report", "--from", str(tmp_path / "all.parquet"), "--json"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert {row["model"] for row in json.loads(result.stdout)["models"]} == {"m0", "m1"}


def test_numbers_on_features_are_those_of_the_api(zoo_home):
    names = ["one", "two"]
    for name, recipe in zip(names, ["resnet8-softmax", "resnet8-cosine"], strict=True):
        zoo.train(recipe, data="digits[:96]", epochs=1, progress=False, save_as=name)
    material = feature_material(names, "digits:test", "digits-rotated", progress=False)
    runs = zoo.run(names, data="digits:test", progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZooWarning)
        document = build(Material(runs, images=zoo.datasets.load("digits:test"), features=material), steps=2)
    learnt, asked = (zoo.run(names, data=f"digits-rotated:{split}", progress=False) for split in ("train", "test"))
    own = zoo.run(names, data="digits:train", progress=False)
    for row, name in zip(document.numbers["transfer"], names, strict=True):
        probe = probes.LinearProbe().fit(learnt[name].embeddings, learnt[name].labels)
        assert row["model"] == name
        assert row["transfer"] == probe.score(asked[name].embeddings, asked[name].labels)
        assert row["class separation"] == diversity.class_separation(own[name].embeddings, own[name].labels)
    pair = document.numbers["pair"]
    assert document.numbers["cka"] == diversity.cka(*pair, data="digits:train").to_dict()
    assert [section.id for section in document.sections][-2:] == ["transfer", "together"]
    assert document.sections[2].images


def test_a_transfer_task_needs_a_split_to_learn_from():
    with pytest.raises(InputError, match="also has a train split"):
        feature_material(["resnet8-softmax"], "digits:test", "digits-rotated:train")


def test_demo_from_nothing_to_a_page(zoo_home, tmp_path):
    arguments = ["demo", "--models", "resnet8-softmax,resnet8-cosine", "-o", str(tmp_path / "page.html")]
    first = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert first.exit_code == 0
    assert "2 of 2" in first.stderr
    page = (tmp_path / "page.html").read_text()
    assert all(f'id="{section}"' in page for section in ("models", "errors", "pair", "ensemble", "transfer", "together"))
    second = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert "of 2  resnet8" not in second.stderr  # nothing is trained again
    numbers = json.loads(second.stdout)
    assert all(row["accuracy"] > 0.6 for row in numbers["models"])


def test_demo_on_images_without_a_training_split(zoo_home, tmp_path):
    test = zoo.datasets.load("digits:test[:40]")
    for row in range(len(test)):
        place = tmp_path / "images" / test.classes[int(test.labels[row])]
        place.mkdir(parents=True, exist_ok=True)
        test[row].save(place / f"{row}.png")
    for name, recipe in (("one", "resnet8-softmax"), ("two", "resnet8-cosine")):
        zoo.train(recipe, data="digits[:96]", epochs=1, progress=False, save_as=name)
    arguments = ["demo", "--data", f"folder:{tmp_path / 'images'}", "--models", "one,two"]
    done = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "page.html")], catch_exceptions=False)
    assert done.exit_code == 0
    assert "features are left out" in done.stderr
    assert 'id="errors"' in (tmp_path / "page.html").read_text()


def test_thirty_models_fit_in_eight_megabytes():
    assert len(to_html(build(Material(made_runs(30, 2000, 10)), steps=5)).encode()) < 8e6


@pytest.mark.slow
def test_a_hundred_models_and_ten_thousand_examples(browser, tmp_path):
    page = tmp_path / "large.html"
    page.write_text(to_html(build(Material(made_runs(100, 10_000, 10)), steps=5)))
    assert page.stat().st_size < 8e6
    began = time.monotonic()
    opened(browser, page)
    assert time.monotonic() - began < 10
    assert len(browser.find_elements("css selector", "#models tbody tr")) == 100


@pytest.fixture(scope="module")
def browser():
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("no chromium and chromedriver on this machine")
    options = Options()
    options.binary_location = chromium
    quiet = ("background-networking", "component-update", "sync", "gpu")
    for argument in ("headless=new", "no-sandbox", "no-first-run", *(f"disable-{name}" for name in quiet)):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    session = webdriver.Chrome(options=options, service=Service(driver))
    yield session
    session.quit()


def opened(browser, page):
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get(page.as_uri())
    WebDriverWait(browser, 60).until(lambda b: b.execute_script("return document.body.dataset.ready"))


def test_page_in_a_browser(document, browser, tmp_path):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    page = tmp_path / "report.html"
    page.write_text(to_html(document))
    browser.get_log("performance")
    opened(browser, page)
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked)

    for figure in browser.find_elements(By.CSS_SELECTOR, "figure[id]"):
        drawn = figure.find_elements(
            By.CSS_SELECTOR, ".chart svg .mark-rect path, .chart svg .role-mark path, .chart svg line"
        )
        assert drawn, figure.get_attribute("id")

    def names():
        rows = browser.find_elements(By.CSS_SELECTOR, "#models tbody tr")
        return [row.find_element(By.TAG_NAME, "th").text for row in rows if row.is_displayed()]

    def press(header):
        browser.find_element(By.XPATH, f"//table[@id='models']//button[text()='{header}']").click()

    accuracy = {row["model"]: row["accuracy"] for row in document.numbers["models"]}
    press("accuracy")
    assert names() == sorted(accuracy, key=accuracy.__getitem__)
    press("accuracy")
    assert names() == sorted(accuracy, key=accuracy.__getitem__, reverse=True)
    browser.find_element(By.ID, "filter").send_keys("m2")
    assert names() == ["m2"]

    downloads = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", downloads)
    for kind, beginning in (("csv", b"first,second,"), ("svg", b"<svg"), ("png", b"\x89PNG")):
        button = browser.find_element(By.CSS_SELECTOR, f"#gain [data-save={kind}]")
        button.send_keys(Keys.ENTER)  # by keyboard
        saved = tmp_path / f"gain.{kind}"
        WebDriverWait(browser, 10).until(lambda _, saved=saved: saved.exists())
        assert saved.read_bytes().startswith(beginning)
