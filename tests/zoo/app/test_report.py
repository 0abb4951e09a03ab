"""The report: its numbers equal the API's, its page is self-contained, and it works in a browser."""

import dataclasses
import io
import itertools
import json
import re
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from raised import fields
from report_pages import ODD, made_runs, odd_document, opened
from typer.testing import CliRunner

import diversity
import ensembles
import probes
import zoo
from zoo.app.main import app
from zoo.app.report import report
from zoo.app.report.compose import compose
from zoo.app.report.html import to_html
from zoo.app.report.inputs import ReportInputs, transfer_embeddings
from zoo.app.report.markdown import to_markdown
from zoo.calibration.calibrated_runs import refit_for_selection
from zoo.core.text import as_text, csv_bytes
from zoo.errors import InputError, ZooWarning
from zoo.outputs.outputs import Outputs, Runs


@pytest.fixture(scope="module")
def document():
    return compose(ReportInputs(made_runs()), steps=3)


def assert_close(found, expected):
    """Nested values are equal, and floats up to rounding: scaled logits are rounded when their scale is undone."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_close(found[key], expected[key])
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other)
    else:
        assert found == (pytest.approx(expected, rel=1e-6, nan_ok=True) if isinstance(expected, float) else expected)


def test_numbers_are_those_of_the_api(document):
    calibrated = zoo.calibrate(made_runs())
    assert document.numbers["inconsistency"] == diversity.pairwise(calibrated).matrix("inconsistency").to_dict()
    split = ensembles.stratified_split(calibrated.labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZooWarning)
        path = ensembles.greedy(calibrated, steps=3, split=split)
    assert_close(document.numbers["path"], path.to_dict())
    refitted = refit_for_selection(calibrated, np.isin(np.arange(400), split[0]))
    pair, test = document.numbers["pair"], refitted.select(split[1])
    assert_close(document.numbers["comparison"], diversity.compare(*(test[name] for name in pair)).to_dict())
    temperatures = {row["model"]: row["temperature"] for row in document.numbers["models"]}
    assert_close(temperatures, {name: outputs.temperature for name, outputs in refitted.items()})
    assert document.numbers["population"] == calibrated.population


def test_what_is_featured_is_chosen_on_one_half_and_reported_on_the_other(document):
    selection, test = ensembles.stratified_split(made_runs().labels)
    calibrated = refit_for_selection(zoo.calibrate(made_runs()), np.isin(np.arange(400), selection))

    def right(names, rows):
        mean = sum(calibrated[name].probabilities_at(rows) for name in names)
        return (mean.argmax(1) == calibrated.labels[rows]).mean()

    best = document.numbers["best"]
    assert right([best["model"]], selection) == max(right([name], selection) for name in calibrated)
    assert best["test"] == right([best["model"]], test)
    pair = document.numbers["pair"]
    assert right(pair, selection) == max(right(two, selection) for two in itertools.combinations(calibrated, 2))
    assert document.numbers["comparison"]["ensemble_accuracy"] == right(pair, test)


def test_what_is_chosen_does_not_depend_on_the_rows_it_is_reported_on():
    runs = made_runs()
    _, test = ensembles.stratified_split(runs.labels)
    rng = np.random.default_rng(1)
    found = []
    for changed in (False, True):
        made = []
        for outputs in runs.values():
            z = np.array(outputs.logits)
            if changed:
                z[test] = rng.normal(size=(len(test), 5))
            made.append(Outputs.from_arrays(outputs.name, logits=z, labels=runs.labels, temperature=1.0))
        found.append(compose(ReportInputs(Runs(made))).numbers)
    one, other = found
    assert one["pair"] == other["pair"]
    assert one["best"]["model"] == other["best"]["model"]
    assert (one["path"]["members"], one["path"]["score"]) == (other["path"]["members"], other["path"]["score"])
    assert one["comparison"]["accuracy_first"] > other["comparison"]["accuracy_first"] + 0.2


def test_every_claim_names_its_examples(document):
    said = zoo.calibrate(made_runs()).population
    assert "400" in said
    assert "400" in document.subtitle
    assert document.numbers["population"] == said
    assert all(section.population for section in document.sections)
    populations = {section.id: section.population for section in document.sections}
    assert populations["models"] == populations["errors"] == populations["calibration"] == said
    assert re.findall(r"\d+", populations["pair"]) == ["200", "200"]
    assert all(re.search(r"\b(200|400)\b", finding.sentence) for finding in document.findings)
    page, text = to_html(document), to_markdown(document)
    assert page.count(said) >= 4
    assert text.count(said) >= 4


def test_what_all_models_share_is_said_once():
    cards = [zoo.card(f"resnet8-{objective}.digits") for objective in ("softmax", "cosine", "sigmoid")]
    runs = [dataclasses.replace(o, card=card) for o, card in zip(made_runs(3).values(), cards, strict=True)]
    found = compose(ReportInputs(Runs(runs)), steps=1)
    section = next(section for section in found.sections if section.title == "The models")
    assert "family resnet, trained on digits, licence apache-2.0" in section.lead
    assert all({"family", "trained on", "licence"}.isdisjoint(row) and row["objective"] for row in section.tables[0].rows)
    assert {row["licence"] for row in found.numbers["models"]} == {"apache-2.0"}


def test_the_headlines_and_the_ensembles_calibration(document):
    path, comparison = document.analysis.path, document.numbers["comparison"]
    headlines = {finding.title: finding for finding in document.findings if finding.headline}
    assert len(headlines) == 4
    low, high = diversity.intervals.wilson(document.numbers["best"]["test"], 200)
    assert f"{100 * low:.1f} to {100 * high:.1f}" in headlines["Best single model"].sentence
    assert f"{abs(100 * comparison['gain_over_best']):.1f} points" in headlines["Best pair"].sentence
    size = path.smallest_sufficient()
    assert headlines["Smallest sufficient ensemble"].number.split()[0] == str(size)
    assert f"{path.test_score[path.best - 1]:.1%}" in headlines["Smallest sufficient ensemble"].sentence
    found = document.numbers["ensemble_calibration"]
    assert (found["ece_before"], found["ece_after"]) == (path.calibration.ece_before, path.calibration.ece_after)
    test = document.analysis.test
    assert found["members"] == {
        name: zoo.calibration.expected_calibration_error(test[name].probabilities, test.labels)
        for name in document.analysis.members
    }


def test_the_overview_has_every_model_and_ensemble_on_the_test_split(document):
    rows = {tuple(row["members"]): row for row in document.numbers["overview"]}
    test, path = document.analysis.test, document.analysis.path
    for name, outputs in test.items():
        assert rows[(name,)]["accuracy"] == outputs.accuracy
        assert rows[(name,)]["low"] < outputs.accuracy < rows[(name,)]["high"]
    best = tuple(document.analysis.members)
    assert rows[best]["accuracy"] == path.test_score[path.best - 1]


def test_correlations_are_of_pairs_of_comparable_accuracy(document):
    frame = diversity.pair_frame(document.analysis.runs, accuracy_band=4.0)
    assert 2 < frame["comparable"].sum() < len(frame)
    for key, gain in (("line", "gain_over_mean"), ("line_over_best", "gain_over_best")):
        line = diversity.regression(frame, y=gain)
        found = document.numbers[key]
        assert (found["correlation"], tuple(found["interval"]), found["pairs"]) == (
            line.correlation,
            line.interval,
            line.points,
        )


def test_report_from_python(tmp_path):
    document = report(made_runs(), tmp_path / "page.html", steps=2)
    assert "m0" in (tmp_path / "page.html").read_text()
    assert document.numbers["path"]["settings"]["steps"] == 2
    for name, text in (("page.md", "| m0 |"), ("page.json", '"path"')):
        report(list(made_runs().values()), tmp_path / name, steps=1)
        assert text in (tmp_path / name).read_text()
    with pytest.raises(InputError, check=fields(argument="output", found="page.pdf")):
        report(made_runs(), "page.pdf")


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


def test_class_names_alone(tmp_path):
    """Three files of names as people keep them; one model answers what is no class, and none has a confidence."""
    rng = np.random.default_rng(0)
    classes = np.array(["cat", "dog", "owl"])
    truth = rng.integers(0, 3, 90)
    said = {}
    for name in ("a", "b", "c"):
        said[name] = np.where(rng.random(90) < 0.7, classes[truth], classes[rng.integers(0, 3, 90)])
    said["c"][:4] = "no idea"
    for name, answers in said.items():
        frame = pd.DataFrame({"id": [f"x{i}" for i in range(90)], "y_true": classes[truth], "y_pred": answers})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "classes.txt").write_text("\n".join(classes))
    page = tmp_path / "page.html"
    arguments = ["report", "--from", str(tmp_path), "--steps", "2", "--static"]
    done = CliRunner().invoke(app, [*arguments, "-o", str(page)], catch_exceptions=False)
    assert done.exit_code == 0
    shown = page.read_text().split('<script type="application/json"', 1)[0]
    assert re.findall(r'<section id="([^"]+)"', shown) == [
        "overview",
        "models",
        "errors",
        "pair",
        "ensemble",
        "classes-section",
    ]
    for absent in ("temperature", "ECE", "θ", "nan", "calibrat"):
        assert absent not in shown, absent
    assert "all 90 examples" in shown
    numbers = json.loads(CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False).stdout)
    assert {row["model"]: row["accuracy"] for row in numbers["models"]} == {
        name: np.mean(answers == classes[truth]) for name, answers in said.items()
    }
    assert {row["model"]: row["no prediction"] for row in numbers["models"]} == {"a": None, "b": None, "c": 4}
    assert numbers["path"]["settings"]["kind"] == "predictions"
    wrong = {name: answers != classes[truth] for name, answers in said.items()}
    assert numbers["inconsistency"]["a"]["c"] == np.mean(wrong["a"] != wrong["c"])


def test_models_with_and_without_confidences_vote(tmp_path):
    first, *rest = made_runs().values()
    bare = [Outputs.from_arrays(o.name, predictions=o.predictions, labels=o.labels, dataset="made") for o in rest]
    document = compose(ReportInputs(Runs([first, *bare])), steps=2)
    assert [section.id for section in document.sections] == [
        "overview", "models", "errors", "pair", "ensemble", "classes-section",
    ]  # fmt: skip
    assert document.numbers["population"] == "all 400 examples"
    assert document.numbers["path"]["settings"]["kind"] == "predictions"
    assert "emperature" not in to_markdown(document)


def test_outputs_on_a_dataset_without_images(zoo_home):
    for outputs in made_runs().values():
        zoo.store.save(outputs)
    result = CliRunner().invoke(app, ["report", "m?", "--data", "made", "--json"], catch_exceptions=False)
    assert len(json.loads(result.stdout)["models"]) == 4


def test_a_page_that_cannot_be_written_is_printed(tmp_path, monkeypatch):
    for name, outputs in made_runs(models=2).items():
        np.savez(tmp_path / f"{name}.npz", logits=outputs.logits, labels=outputs.labels)
    (tmp_path / "page.html").mkdir()
    command = ["report", "--from", str(tmp_path), "-o"]
    result = CliRunner().invoke(app, [*command, str(tmp_path / "page.html")])
    assert result.exit_code
    assert "| m0 |" in result.stdout
    for place, words in (("page.doc", "ends in .html"), ("nowhere/page.html", "nowhere")):
        result = CliRunner().invoke(app, [*command, str(tmp_path / place)])
        assert words in str(result.exception)
        assert not result.stdout


def test_models_without_a_difference_have_no_undefined_number():
    labels = np.arange(60) % 3
    runs = Runs(Outputs.from_arrays(name, logits=9 * np.eye(3)[labels], labels=labels) for name in ("class", "owner", "p"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZooWarning)  # a temperature at its bound
        document = compose(ReportInputs(runs))
    shown = to_html(document).split('<script type="application/json"', 1)[0] + to_markdown(document)
    assert not re.search(r"\bnan\b", shown, re.IGNORECASE)
    assert document.findings[0].number == "100.0%"
    assert document.findings[0].headline
    (owned,) = (table for section in document.sections for table in section.tables if table.id == "owned")
    assert owned.rows[0]["class"] == "0"  # models that are called like columns hide none
    assert owned.rows[0]["accuracy of class"] == 1.0


def test_one_model_is_refused():
    with pytest.raises(InputError, check=fields(argument="runs", expected="two models", found=1)):
        compose(ReportInputs(made_runs(models=1)))


def test_own_predictions_in_one_command(tmp_path):
    runs = made_runs(models=2)
    for name, outputs in runs.items():
        np.savez(tmp_path / f"{name}.npz", logits=outputs.logits, labels=outputs.labels)
    page = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["report", "--from", str(tmp_path), "-o", str(page)], catch_exceptions=False)
    assert result.exit_code == 0
    assert "m0" in page.read_text()
    assert 'id="examples"' in page.read_text()
    CliRunner().invoke(app, ["report", "--from", str(tmp_path), "--static", "-o", str(page)], catch_exceptions=False)
    assert "m0" in page.read_text()
    assert 'id="examples"' not in page.read_text()
    table = pd.concat(
        pd.DataFrame({"model": n, "id": o.ids, "label": o.labels, "probabilities": list(o.probabilities)})
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
    material = transfer_embeddings(names, "digits:test", "digits-rotated", progress=False)
    runs = zoo.run(names, data="digits:test", progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZooWarning)
        document = compose(ReportInputs(runs, images=zoo.datasets.load("digits:test"), features=material), steps=2)
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
    assert next(section for section in document.sections if section.id == "pair").images


def test_a_transfer_task_needs_a_split_to_learn_from():
    with pytest.raises(InputError, check=fields(argument="transfer", expected="train split", found="digits-rotated:train")):
        transfer_embeddings(["resnet8-softmax"], "digits:test", "digits-rotated:train")


def test_demo_from_nothing_to_a_page(zoo_home, tmp_path):
    arguments = ["demo", "resnet8-softmax", "resnet8-cosine", "-o", str(tmp_path / "page.html")]
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
    arguments = ["demo", "--data", f"folder:{tmp_path / 'images'}", "one", "two"]
    done = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "page.html")], catch_exceptions=False)
    assert done.exit_code == 0
    assert "skipped" in done.stderr
    assert 'id="errors"' in (tmp_path / "page.html").read_text()


def test_thirty_models_fit_in_eight_megabytes():
    document = compose(ReportInputs(made_runs(30, 2000, 10)), steps=5)
    assert len(to_html(document).encode()) < 8e6
    assert document.numbers["best"]["model"] == document.numbers["path"]["members"][0]


@pytest.mark.slow
def test_a_hundred_models_and_ten_thousand_examples(browser, tmp_path):
    page = tmp_path / "large.html"
    page.write_text(to_html(compose(ReportInputs(made_runs(100, 10_000, 10)), steps=5)))
    assert page.stat().st_size < 8e6
    began = time.monotonic()
    opened(browser, page)
    assert time.monotonic() - began < 10
    assert len(browser.find_elements("css selector", "#model-table tbody tr")) == 100


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
        rows = browser.find_elements(By.CSS_SELECTOR, "#model-table tbody tr")
        return [row.find_element(By.TAG_NAME, "th").text for row in rows if row.is_displayed()]

    def press(header):
        browser.find_element(By.XPATH, f"//table[@id='model-table']//button[text()='{header}']").click()

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


def test_the_model_table_shows_first_rows_chosen_columns_and_saves_itself(browser, tmp_path):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    page = tmp_path / "many.html"
    page.write_text(to_html(compose(ReportInputs(made_runs(18, 200, 3)), steps=1)))
    opened(browser, page)

    def visible(selector):
        return [one.text for one in browser.find_elements(By.CSS_SELECTOR, selector) if one.is_displayed()]

    assert len(visible("#model-table tbody tr")) == 15
    browser.find_element(By.ID, "all-rows").click()
    assert len(visible("#model-table tbody tr")) == 18
    assert "NLL" not in visible("#model-table thead th")
    browser.find_element(By.CSS_SELECTOR, ".columns summary").click()
    browser.find_element(By.CSS_SELECTOR, "#columns input[value=NLL]").click()
    assert "NLL" in visible("#model-table thead th")
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    browser.find_element(By.CSS_SELECTOR, "[data-table=model-table][data-save=csv]").click()
    saved = tmp_path / "model-table.csv"
    WebDriverWait(browser, 10).until(lambda _: saved.exists())
    frame = pd.read_csv(saved)
    assert len(frame) == 18
    assert {"model", "accuracy", "NLL"} <= set(frame.columns)


def test_accuracy_by_class_is_that_of_the_predictions(document):
    (figure,) = (one for section in document.sections for one in section.figures if one.id == "class-accuracy")
    runs = document.analysis.runs
    rows = figure.chart["data"]["values"]
    assert len(rows) == len(runs) * 5
    for row in rows:
        members = runs.labels == row["label"]
        assert row["examples"] == members.sum()
        assert row["accuracy"] == pytest.approx((runs[row["model"]].predictions[members] == row["label"]).mean(), abs=1e-4)


def test_names_are_text_and_no_formula_leaves_the_page(browser, tmp_path):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    document = odd_document()
    page = tmp_path / "odd.html"
    page.write_text(to_html(document))
    opened(browser, page)
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    assert browser.title == document.title
    shown = [cell.text for cell in browser.find_elements(By.CSS_SELECTOR, "#model-table tbody th")]
    assert sorted(shown) == sorted(as_text(name) for name in ODD)
    owned = [cell.text for cell in browser.find_elements(By.CSS_SELECTOR, "#owned tbody th")]
    assert not any("\u202e" in text.text for text in browser.find_elements(By.CSS_SELECTOR, "svg text"))
    assert sorted(owned) == sorted(as_text(name) for name in ODD)
    under = [name.text for name in browser.find_elements(By.CSS_SELECTOR, ".images b")]
    assert len(under) == len(browser.find_elements(By.CSS_SELECTOR, "main img, main b, main script")) / 2 > 5
    assert set(under) <= set(map(as_text, document.analysis.runs[ODD[0]].ids))
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")

    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    browser.find_element(By.CSS_SELECTOR, "#inconsistency [data-save=csv]").click()
    saved = tmp_path / "inconsistency.csv"
    WebDriverWait(browser, 10).until(lambda _: saved.exists())
    matrix = pd.DataFrame(document.numbers["inconsistency"]).rename(index=as_text, columns=as_text).round(4)
    cells = matrix.rename_axis("first").reset_index().melt("first", var_name="second").sort_values(["first", "second"])
    expected = pd.read_csv(io.BytesIO(csv_bytes(cells)))
    found = pd.read_csv(saved).sort_values(["first", "second"])
    assert found["first"].str.startswith("'").sum() == 3 * len(ODD)
    pd.testing.assert_frame_equal(
        found.reset_index(drop=True), expected.sort_values(["first", "second"]).reset_index(drop=True)
    )


@pytest.mark.parametrize("width", [1300, 390])
def test_charts_fill_their_place(document, browser, tmp_path, width):
    page = tmp_path / "page.html"
    page.write_text(to_html(document))
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        opened(browser, page)
        script = """return [...document.querySelectorAll(".chart")].map(
            (chart) => [chart.clientWidth, chart.querySelector("svg").getBoundingClientRect().width])"""
        for room, taken in browser.execute_script(script):
            assert 0.9 * room <= taken <= room
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
