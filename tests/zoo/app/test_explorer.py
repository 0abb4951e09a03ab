"""The explorer in a browser: the numbers of every pair and ensemble equal those of the API."""

import itertools
import json
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from report_pages import ODD, made_runs, odd_document, opened
from selenium.common.exceptions import ElementClickInterceptedException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

import diversity
import ensembles
import zoo
from diversity import MEASURES
from diversity.categories import TITLES
from zoo.app.report import calibration, page_arrays
from zoo.app.report.analysis import Analysis
from zoo.app.report.compose import compose
from zoo.app.report.document import Part, shown
from zoo.app.report.html import chart_specs, to_explorer
from zoo.app.report.inputs import ReportInputs, TransferEmbeddings
from zoo.app.report.page_data import _cka
from zoo.app.report.transfer import transfer
from zoo.cards.card import Card, Training
from zoo.cards.labels import describe
from zoo.core.text import as_text
from zoo.errors import ZooWarning
from zoo.outputs.outputs import Outputs, Runs

MODELS, EXAMPLES, CLASSES = 7, 480, 6
# Values and confidence intervals in the table of measures, by name of the measure.
MEASURED = """return Object.fromEntries([...document.querySelectorAll("#measures tr[data-measure]")].map(
    (row) => [row.dataset.measure, [...row.cells].slice(1).map((cell) => cell.textContent)]))"""


def carded_runs() -> Runs:
    """Return outputs with cards: two families, three objectives, named classes and example ids."""
    found, rng = [], np.random.default_rng(3)
    for i, outputs in enumerate(made_runs(MODELS, EXAMPLES, CLASSES).values()):
        family, objective = ("resnet", "vgg")[i % 2], ("softmax", "sigmoid", "cosine")[i % 3]
        training = Training("made", "supervised", objective, {"tau": 0.1 * (i % 2)}, seed=i)
        card = Card(outputs.name, "local", family, f"{family}8", "made", "softmax", "trained", training)
        found.append(
            Outputs.from_arrays(
                outputs.name, logits=outputs.logits, labels=outputs.labels, dataset="made", card=card,
                embeddings=rng.normal(size=(EXAMPLES, 3 + i)),
                classes=[f"class {k}" for k in range(CLASSES)], ids=[f"image-{row}.png" for row in range(EXAMPLES)],
            )
        )  # fmt: skip
    return Runs(found)


def probed(runs: Runs) -> Part:
    """Return the report's section on features, for models with different class separation."""
    task = np.arange(60) % 3

    def embedded_by(name: str, seed: int, dataset: str) -> Outputs:
        x = np.random.default_rng([seed, int(name[1:])]).normal(size=(60, 3)) + int(name[1:]) % 4 * np.eye(3)[task]
        return Outputs.from_arrays(name, predictions=task, labels=task, embeddings=x, dataset=dataset)

    parts = [Runs(embedded_by(name, i, f"other:{i}") for name in runs) for i in range(3)]
    part = transfer(Analysis(runs, "all", ReportInputs(runs, features=TransferEmbeddings(*parts))))
    return replace(part, findings=[replace(finding, section="transfer") for finding in part.findings])


@pytest.fixture(scope="module")
def document():
    rng = np.random.default_rng(0)
    ids = [f"image-{row}.png" for row in range(EXAMPLES)]
    pixels = rng.integers(0, 255, (EXAMPLES, 8, 8, 3), np.uint8)
    images = zoo.datasets.Dataset("made", "made", ids, lambda row: Image.fromarray(pixels[row]), "0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibration, "MAX_DIAGRAMS", 4)  # not every model has a diagram
        made = compose(ReportInputs(carded_runs(), images=images), steps=3)
    part = probed(made.analysis.runs)
    return replace(made, sections=[*made.sections, part.section], findings=[*made.findings, *part.findings])


@pytest.fixture(scope="module")
def page(document, tmp_path_factory):
    place = tmp_path_factory.mktemp("explorer") / "page.html"
    place.write_text(to_explorer(document))
    return place


@pytest.fixture
def explorer(page, browser):
    """Open the page in its initial state; check for errors before and after the test."""
    browser.get("about:blank")
    browser.get_log("browser")
    opened(browser, page)
    yield browser
    assert [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def wait(browser, condition):
    return WebDriverWait(browser, 60, 0.05).until(condition)


def hash_of(browser) -> str:
    return browser.execute_script("return decodeURIComponent(location.hash)")


def go(browser, address):
    browser.execute_script("location.hash = arguments[0]", address)


def texts(browser, selector):
    script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText)"
    return browser.execute_script(script, selector)


def complete_pair(browser, names, a, b, on="test"):
    wanted = f"{names.index(a)},{names.index(b)},{on}"
    wait(browser, lambda b: b.execute_script("return document.getElementById('pair').dataset.complete") == wanted)


def table(browser, selector):
    """Return the texts of the cells in a table's body."""
    script = """return [...document.querySelectorAll(arguments[0] + " tbody tr")]
        .filter((row) => !row.classList.contains("part")).map((row) => [...row.cells].map((cell) => cell.textContent))"""
    return browser.execute_script(script, selector)


def measure_text(value, measure):
    return shown(float(value), measure.unit == "share", measure.difference)


def assert_interval(found, low, high, measure=None):
    """Check an interval of the page against the API, up to the noise of two bootstraps with 1,000 resamples."""
    if measure is not None and measure.of:  # Wilson's interval is not random
        assert found == shown((float(low), float(high)), percent=True)
        return
    if np.isnan(low):
        assert found == ""
        return
    scale = 100 if measure is None or measure.unit == "share" or measure.difference else 1
    assert [float(end) for end in found.split(" to ")] == pytest.approx(
        [scale * float(low), scale * float(high)], abs=scale * float(0.15 * (high - low)) + 0.005 * scale + 1e-3
    )


def test_twelve_pairs_equal_the_api(document, explorer):
    runs, halves = document.analysis.runs, document.analysis.splits
    names = runs.names
    rng = np.random.default_rng(1)
    pairs = [tuple(pair) for pair in itertools.permutations(names, 2)]
    populations = {"test": runs.select(halves[1]), "selection": runs.select(halves[0]), "all": runs}
    for number, index in enumerate(rng.choice(len(pairs), 12, replace=False)):
        a, b = pairs[index]
        on = ("test", "selection", "all")[number % 3]
        expected = diversity.compare(populations[on][a], populations[on][b])
        go(explorer, f"#pair={a},{b}&on={on}")
        complete_pair(explorer, names, a, b, on)
        measured = expected.measured()
        found = explorer.execute_script(MEASURED)
        if on != "test":
            assert "cka" not in found  # needs embeddings, which the page does not contain
            del measured["cka"]
        assert set(found) == set(measured)
        for name, (value, low, high) in measured.items():
            measure = MEASURES[name]
            assert found[name][0] == measure_text(value, measure), (a, b, on, name)
            if measure.has_interval:
                assert_interval(found[name][1], low, high, measure)
            else:
                assert found[name][1] == ""
        counts = [
            int(re.match(r"[\d,]+", cell)[0].replace(",", "")) for row in table(explorer, "#outcomes") for cell in row[1:]
        ]
        assert counts == [*expected.cells[:3], expected.cells[3:].sum()]
        owned = expected.by_class()
        assert table(explorer, "#owned") == [
            [
                describe(row["class"]), f"{row['count']:,}", shown(row["accuracy_first"], True),
                shown(row["accuracy_second"], True), shown(row["advantage"], points=True), shown(row["p_holm"]),
                {"first": a, "second": b}.get(row["owner"], ""),
            ]
            for row in owned.to_dict(orient="records")
        ]  # fmt: skip
        bars = explorer.execute_script("return charts.get('theta').data.values")
        assert [bar["count"] for bar in bars] == expected.histogram()["count"].tolist()
        rules = explorer.execute_script(
            "return charts.get('theta').spec.layer.slice(1).map((rule) => rule.encoding.x.datum)"
        )
        band = [edge for edge in (expected.band.lower, expected.band.upper) if edge is not None]
        assert rules == pytest.approx(band, abs=1e-5)
        under = texts(explorer, "#pair-images b")
        assert under == list(dict.fromkeys(expected.extremes(6)["id"]))


def test_twelve_ensembles_equal_the_api(document, explorer):
    runs, halves = document.analysis.runs, document.analysis.splits
    rng = np.random.default_rng(2)
    for _ in range(12):
        members = sorted(rng.choice(MODELS, rng.integers(1, MODELS + 1), replace=False))
        names = [runs.names[i] for i in members]
        go(explorer, f"#ensemble={','.join(names)}")
        wanted = ",".join(map(str, members))
        wait(
            explorer,
            lambda b, w=wanted: b.execute_script("return document.getElementById('any-ensemble').dataset.complete") == w,
        )
        found = {row[0]: row[1:] for row in scores(explorer)}
        for side, rows in enumerate(halves):
            chosen = Runs(runs.select(rows)[name] for name in names)
            gains = ensembles.improvement(chosen)
            together = ensembles.average(chosen)
            labels = chosen.labels
            low, high = diversity.intervals.wilson(gains.ensemble_accuracy, len(labels))
            expected = {
                "accuracy": f"{gains.ensemble_accuracy:.1%}",
                "interval": f"{100 * low:.1f} to {100 * high:.1f}",
                "best": f"{max(gains.accuracies):.1%}",
                "gain": f"{100 * gains.gain_over_best:+z.1f}",
                "gain-over-mean": f"{100 * gains.gain_over_mean:+z.1f}",
                "conversion": shown(gains.conversion_rate, True),
                "nll": shown(zoo.calibration.negative_log_likelihood(together, labels)),
                "ece": shown(zoo.calibration.expected_calibration_error(together, labels), True),
            }
            assert {key: found[key][side] for key in expected} == expected, (names, side)
            assert_interval(found["gain-interval"][side], *gains.interval)
        ticked = explorer.execute_script(
            "return [...document.querySelectorAll('#model-table :checked')].map((tick) => tick.closest('tr').dataset.model)"
        )
        assert sorted(map(int, ticked)) == members


def scores(browser):
    script = """return [...document.querySelectorAll("#scores tr[data-score]")].map(
        (row) => [row.dataset.score, ...[...row.cells].slice(1).map((cell) => cell.textContent)])"""
    return browser.execute_script(script)


def test_clicks_the_back_button_and_shared_urls(document, explorer, page):
    names = document.analysis.runs.names
    first, second = document.numbers["pair"]
    complete_pair(explorer, names, first, second)
    assert explorer.find_element(By.ID, "pair-title").text == f"Side by side: {first} and {second}"

    a, b = [name for name in names if name not in (first, second)][:2]
    click(explorer, "#inconsistency", a, b)
    complete_pair(explorer, names, a, b)
    assert hash_of(explorer) == f"#pair={a},{b}&outcome=apart"
    assert explorer.find_element(By.ID, "pair-title").text == f"Side by side: {a} and {b}"

    dot = explorer.execute_script("return charts.get('gain').layer[1].data.values[2]")
    click(explorer, "#gain", dot["first"], dot["second"])
    complete_pair(explorer, names, dot["first"], dot["second"])

    explorer.back()
    complete_pair(explorer, names, a, b)
    explorer.back()
    complete_pair(explorer, names, first, second)
    explorer.forward()
    complete_pair(explorer, names, a, b)

    explorer.get("about:blank")
    explorer.get(f"{page.as_uri()}#pair={b},{a}&ensemble={a},{b}&outcome=only-a")
    wait(explorer, lambda browser: browser.execute_script("return document.body.dataset.complete"))
    assert explorer.find_element(By.ID, "pair-title").text == f"Side by side: {b} and {a}"
    assert texts(explorer, "#ensemble-members li span:first-child") == sorted([a, b], key=names.index)
    chosen = Select(explorer.find_element(By.ID, "example-outcome")).first_selected_option
    assert chosen.text == "only the first of the pair correct"


def click(browser, figure, first, second):
    """Click on the mark of two models in a chart."""
    marks = browser.execute_script(
        "return [...document.querySelectorAll(arguments[0] + ' path[aria-label]')].map((one) => [one.ariaLabel, one])",
        figure,
    )
    (mark,) = (one for label, one in marks if f"first: {first};" in label + ";" and f"second: {second};" in label + ";")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", mark)
    try:
        mark.click()
    except ElementClickInterceptedException:  # another dot covers it
        browser.execute_script("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", mark)


def rows_listed(browser):
    """Return all examples of the list by scrolling through it."""
    return browser.execute_script("""
        const list = document.getElementById("example-list"), found = new Map();
        for (list.scrollTop = 0; ; list.scrollTop += list.clientHeight) {
            list.dispatchEvent(new Event("scroll"));
            for (const { dataset } of list.querySelectorAll(".line")) found.set(Number(dataset.place), Number(dataset.row));
            if (list.scrollTop + list.clientHeight >= list.scrollHeight - 1) break;
        }
        return [...found].sort(([a], [b]) => a - b).map(([, row]) => row);""")


def test_filters_of_examples_combine(document, explorer):
    runs = document.analysis.runs
    names, labels = runs.names, runs.labels
    predicted = np.stack([outputs.predictions for outputs in runs.values()])
    right = predicted == labels
    a, b = (names.index(name) for name in document.numbers["pair"])
    assert rows_listed(explorer) == sorted(
        range(len(labels)), key=lambda row: (-(1 - np.bincount(predicted[:, row]).max() / np.float64(MODELS)).round(6), row)
    )
    Select(explorer.find_element(By.ID, "example-class")).select_by_visible_text("class 2")
    Select(explorer.find_element(By.ID, "example-outcome")).select_by_visible_text("only the second of the pair correct")
    Select(explorer.find_element(By.ID, "example-sort")).select_by_visible_text("θ of the pair")
    Select(explorer.find_element(By.ID, "example-order")).select_by_visible_text("smallest first")
    for field, count in (("least", "2"), ("most", "5")):
        box = explorer.find_element(By.ID, f"example-{field}")
        box.clear()
        box.send_keys(count, Keys.ENTER)
    comparison = diversity.compare(*(runs[name] for name in document.numbers["pair"]))
    count = right.sum(0)
    wanted = np.flatnonzero((labels == 2) & right[b] & ~right[a] & (count >= 2) & (count <= 5))
    assert rows_listed(explorer) == sorted(wanted.tolist(), key=lambda row: comparison.theta[row])
    assert explorer.find_element(By.ID, "example-count").text == f"{len(wanted)} of {len(labels)} examples"
    assert "class=2" in hash_of(explorer)

    explorer.execute_script("document.querySelector('#example-list .line').click()")
    row = explorer.execute_script("return explorer.state.open")
    opened_rows = table(explorer, "#example-open")
    assert {line[0]: line[1].split(" ", 1)[1] for line in opened_rows} == {
        name: f"class {predicted[i, row]}" for i, name in enumerate(names)
    }
    confidences = {name: f"{runs[name].probabilities[row].max():.1%}" for name in names}
    assert {line[0]: line[2] for line in opened_rows} == confidences
    assert hash_of(explorer).endswith(f"example={runs[names[0]].ids[row]}")
    explorer.back()
    wait(explorer, lambda browser: not browser.find_element(By.ID, "example-open").is_displayed())


def test_hidden_models_are_removed_from_charts_and_numbers(document, explorer):
    names = document.analysis.runs.names
    kept = [name for i, name in enumerate(names) if i % 2 == 0]  # the models of the family resnet
    explorer.find_element(By.CSS_SELECTOR, "#toolbar summary").click()
    Select(explorer.find_element(By.ID, "field")).select_by_value("family")
    explorer.find_element(By.XPATH, "//div[@id='values']/label[contains(., 'vgg')]/input").click()
    assert texts(explorer, "#visible") == [f"{len(kept)} of {MODELS} models shown"]
    shown_rows = [name for name in texts(explorer, "#model-table tbody tr:not(.out) th") if name]
    assert sorted(shown_rows) == kept
    wait(explorer, lambda browser: browser.execute_script("return charts.get('inconsistency').vconcat.length") == 1)
    cells = explorer.execute_script("return charts.get('inconsistency').vconcat[0].data.values")
    matrix = diversity.pairwise(document.analysis.runs).matrix("inconsistency")
    assert {(c["first"], c["second"]): c["value"] for c in cells} == {
        (x, y): pytest.approx(matrix.loc[x, y], abs=5.1e-5) for x in kept for y in kept
    }
    means = diversity.by_category(diversity.pair_frame(Runs(document.analysis.runs[name] for name in kept)))
    averaged = [m for m in MEASURES.values() if m.by_category]
    assert averaged[0].name == "inconsistency"  # its standard error is in the column after it
    for row, cells in zip(means.to_dict(orient="records"), table(explorer, "#by-category"), strict=True):
        assert cells[:3] == [TITLES[row["category"]], str(row["pairs"]), str(row["models"])]
        assert cells[4] == shown(row["inconsistency_se"], percent=True)
        assert cells[3:4] + cells[5:] == [shown(row[m.name], not m.difference, m.difference) for m in averaged]
    wait(
        explorer,
        lambda b: {d["first"] for d in b.execute_script("return charts.get('gain').layer[1].data.values")} <= set(kept),
    )
    assert f"of {len(kept)} correct" in texts(explorer, "#example-list .line")[0]
    diagrams = "return charts.get('reliability').datasets || charts.get('reliability').data"
    wait(
        explorer,
        lambda b: not any(f'"{name}"' in json.dumps(b.execute_script(diagrams)) for name in names if name not in kept),
    )
    Select(explorer.find_element(By.ID, "colour")).select_by_value("objective")
    groups = {"softmax", "sigmoid", "cosine", "sigmoid / softmax", "cosine / softmax", "cosine / sigmoid"}
    wait(
        explorer,
        lambda b: {d["group"] for d in b.execute_script("return charts.get('gain').layer[1].data.values")} <= groups,
    )
    explorer.find_element(By.ID, "show-all").click()
    wait(explorer, lambda b: b.execute_script("return charts.get('inconsistency').vconcat.length") == 2)
    assert "hide" not in hash_of(explorer)


# The parts of the page that depend on the best models and pairs.
SELECTED = """return {
    title: document.querySelector("h1").textContent,
    findings: [...document.querySelectorAll(".findings li")].map((one) => [one.className, one.hidden, one.innerHTML]),
    path: JSON.stringify(charts.get("path")),
    steps: document.getElementById("steps").outerHTML,
    features: [...document.querySelectorAll("#transfer-table tr:not(.out)")].map((row) => row.textContent),
    diagrams: document.querySelector("#calibration > p").textContent,
    starts: [...document.getElementById("ensemble-start").options].map((one) => one.text),
    counted: document.getElementById("shown").textContent,
    pair: document.getElementById("pair-title").textContent,
    population: document.getElementById("pair-population").textContent,
}"""
FOUND = "return document.body.dataset.found"


def without_interval(finding):
    """Return a finding's sentence without the interval and p-value of a correlation, which the page does not compute."""
    sentence = re.sub(r"(r = -?\d\.\d+) \(95% CI -?\d\.\d+ to -?\d\.\d+\)", r"\1", finding.sentence)
    return re.sub(r"(\d+) recipes \(p = [^)]+\)", r"\1 models", sentence)  # no two models of this report share a recipe


def split_intervals(sentence):
    """Split a sentence into its text without confidence intervals and the intervals, which vary between bootstraps."""
    ends = re.findall(r"95% CI (-?[\d.]+) to (-?[\d.]+)", sentence)
    return re.sub(r"95% CI -?[\d.]+ to -?[\d.]+", "95% CI", sentence), [(float(low), float(high)) for low, high in ends]


def starting_from(browser, title):
    Select(browser.find_element(By.ID, "ensemble-start")).select_by_visible_text(title)
    return browser.execute_script("return explorer.state.members")


def test_findings_are_about_the_models_shown(document, explorer):
    runs = document.analysis.runs
    names = runs.names
    at_first = explorer.execute_script(SELECTED)
    # The best model, from which the search starts, and one of the two side by side.
    gone = {document.numbers["path"]["members"][0], document.numbers["pair"][0]}
    kept = [name for name in names if name not in gone]
    left = Runs(runs[name] for name in kept)
    expected = compose(ReportInputs(left), steps=3)
    anew = {one.section: one for one in [*expected.findings, *probed(left).findings]}
    standing = [one.section for one in document.findings if one.section in ("serving", "calibration", "labels")]
    assert standing == ["serving", "calibration", "labels"]
    of_all = {
        one.section: replace(one, sentence=f"{one.sentence} (of all {MODELS} models)")
        for one in document.findings
        if one.section in standing
    }
    stated = [(anew | of_all)[one.section] for one in document.findings]
    go(explorer, f"#hide:model={','.join(gone)}")
    wanted = ",".join(str(names.index(name)) for name in kept)
    wait(explorer, lambda b: b.execute_script(FOUND) == wanted)

    assert texts(explorer, "h1") == [f"{len(kept)} of {document.title}"]
    assert texts(explorer, "#shown") == [f"{len(kept)} shown"]
    findings = {
        section: (number, sentence)
        for section, number, sentence in explorer.execute_script(
            "return [...document.querySelectorAll('.findings li')].map((one) => [one.dataset.section,"
            " ...['strong', '.sentence'].map((part) => one.querySelector(part).textContent)])"
        )
    }
    assert {section: number for section, (number, _) in findings.items()} == {one.section: one.number for one in stated}
    for one in stated:
        (found, ends), (wording, exact) = split_intervals(findings[one.section][1]), split_intervals(without_interval(one))
        assert found == wording
        for (low, high), (exact_low, exact_high) in zip(ends, exact, strict=True):
            assert (low, high) == pytest.approx((exact_low, exact_high), abs=0.15 * (exact_high - exact_low) + 0.5)
    warned = explorer.execute_script(
        "return [...document.querySelectorAll('.findings li.warning')].map((one) => one.dataset.section)"
    )
    assert set(warned) == {one.section for one in stated if one.warning}
    assert texts(explorer, "#transfer-table tbody tr:not(.out) th") == kept
    assert texts(explorer, "#calibration > p")[0].endswith(f"4 most accurate models are drawn. (of all {MODELS} models)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZooWarning)  # the finding says that the gain is within noise
        path = ensembles.greedy(left, steps=3, split=document.analysis.splits).to_frame()
    steps, first = table(explorer, "#steps"), path["step"] == 1
    intervals = [row.pop(-2) for row in steps]
    gains = path["gain"].map(lambda gain: shown(gain, points=True)).mask(first, "")
    assert steps == [
        [
            row["model"], str(row["step"]), TITLES.get(row["category"], ""), shown(row["selection"], True),
            shown(row["test"], True), gain, "yes" * row["in_best"],
        ]
        for row, gain in zip(path.to_dict(orient="records"), gains, strict=True)
    ]  # fmt: skip
    assert intervals[0] == ""
    for found, low, high in zip(intervals[1:], path["low"][1:], path["high"][1:], strict=True):
        assert_interval(found, low, high)
    (expected_rows,) = chart_specs(expected)["path"]["datasets"].values()
    (drawn,) = explorer.execute_script("return Object.values(charts.get('path').datasets)")
    scores = [(row.pop("score"), other.pop("score")) for row, other in zip(drawn, expected_rows, strict=True)]
    assert drawn == expected_rows
    assert [score for score, _ in scores] == pytest.approx([score for _, score in scores])

    members = document.numbers["path"]["members"][: document.numbers["path"]["best"]]
    assert texts(explorer, "#ensemble-members li span:first-child") == [name for name in kept if name in members]
    assert texts(explorer, "#pair-title") == ["Side by side: {} and {}".format(*expected.numbers["pair"])]
    complete_pair(explorer, names, *expected.numbers["pair"])
    assert texts(explorer, "#pair-population")[0].endswith("chosen on the other examples.")
    best = path["model"][path["in_best"]]
    assert starting_from(explorer, "greedy search") == sorted(names.index(name) for name in best)
    assert starting_from(explorer, "whole greedy path") == sorted(names.index(name) for name in path["model"])
    assert starting_from(explorer, "best model") == [names.index(expected.numbers["best"]["model"])]
    assert starting_from(explorer, "best pair") == sorted(names.index(name) for name in expected.numbers["pair"])
    explorer.find_element(By.ID, "show-all").click()
    wait(explorer, lambda b: b.execute_script(FOUND) == ",".join(map(str, range(MODELS))))
    assert explorer.execute_script(SELECTED) == at_first


def test_the_heatmap_shows_the_chosen_measure(document, explorer):
    Select(explorer.find_element(By.ID, "matrix-measure")).select_by_value("kappa")
    wait(explorer, lambda b: "matrix=kappa" in hash_of(b))
    title = "return charts.get('inconsistency').vconcat.at(-1).encoding.color.title"
    wait(explorer, lambda b: b.execute_script(title) == MEASURES["kappa"].title)
    cells = explorer.execute_script("return charts.get('inconsistency').vconcat.at(-1).data.values")
    matrix = diversity.pairwise(document.analysis.runs).matrix("kappa")
    assert {(c["first"], c["second"]): c["value"] for c in cells} == {
        (x, y): pytest.approx(matrix.loc[x, y], abs=5.1e-5) for x in matrix.index for y in matrix.columns
    }


def test_the_heatmap_shows_the_similarity_of_embeddings(document, explorer):
    Select(explorer.find_element(By.ID, "matrix-measure")).select_by_value("cka")
    title = "return charts.get('inconsistency').vconcat.at(-1).encoding.color.title"
    wait(explorer, lambda b: b.execute_script(title) == MEASURES["cka"].title)
    cells = explorer.execute_script("return charts.get('inconsistency').vconcat.at(-1).data.values")
    test = document.analysis.test
    first, second = test.names[:2]
    (value,) = [cell["value"] for cell in cells if (cell["first"], cell["second"]) == (first, second)]
    assert value == pytest.approx(diversity.compare(test[first], test[second]).cka, abs=5.1e-5)


def test_cka_is_computed_for_models_with_embeddings():
    runs = carded_runs()
    bare = runs.names[0]
    outputs = runs[bare]
    without = Outputs.from_arrays(
        bare, logits=outputs.logits, labels=outputs.labels, classes=outputs.classes, ids=outputs.ids
    )
    found = _cka(Runs([without, *(runs[name] for name in runs.names[1:])]))
    assert found[0] == [None] * MODELS
    assert found[1][2] == pytest.approx(diversity.compare(runs[runs.names[1]], runs[runs.names[2]]).cka)


def test_numbers_link_to_the_examples_they_count(document, explorer):
    runs = document.analysis.runs
    names, labels, test = runs.names, runs.labels, document.analysis.splits[1]
    a, b = names[1], names[4]
    go(explorer, f"#pair={a},{b}")
    complete_pair(explorer, names, a, b)

    def listed():
        return set(
            explorer.execute_script(
                "return [...document.querySelectorAll('#example-list .line')].map((one) => +one.dataset.row)"
            )
        )

    def counted():
        return int(explorer.find_element(By.ID, "example-count").text.split()[0].replace(",", ""))

    button = explorer.find_elements(By.CSS_SELECTOR, "#outcomes button")[1]
    explorer.execute_script("arguments[0].click()", button)
    right = {name: runs[name].predictions[test] == labels[test] for name in (a, b)}
    only = set(test[right[a] & ~right[b]].tolist())
    wait(explorer, lambda _: counted() == len(only))
    assert listed() <= only

    row = explorer.find_element(By.CSS_SELECTOR, "#flips tbody tr")
    k, m = (int(row.find_elements(By.CSS_SELECTOR, "th, td")[i].text.split()[-1]) for i in (0, 1))
    explorer.execute_script("arguments[0].click()", row.find_element(By.TAG_NAME, "button"))
    flipped = test[(runs[a].predictions[test] == k) & (runs[b].predictions[test] == m)]
    wait(explorer, lambda _: counted() == len(flipped))
    assert listed() <= set(flipped.tolist())
    conditions = explorer.find_elements(By.CSS_SELECTOR, "#example-said button")
    assert len(conditions) == 2
    explorer.execute_script("arguments[0].click()", conditions[1])
    wait(explorer, lambda _: counted() == int((runs[a].predictions[test] == k).sum()))

    explorer.execute_script("explorer.openClass({ label: 2, model: arguments[0] })", a)
    wrong = np.flatnonzero((labels == 2) & (runs[a].predictions != 2))
    wait(explorer, lambda _: counted() == len(wrong))
    assert listed() <= set(wrong.tolist())


def test_the_toolbar_shows_the_ensemble_and_checkboxes_keep_the_focus(document, explorer):
    accuracy = {row[0]: row[2] for row in scores(explorer)}["accuracy"]
    members = len(document.analysis.members)
    assert texts(explorer, "#ensemble-summary") == [f"ensemble: {members} models, {accuracy}"]
    tick = explorer.find_element(By.CSS_SELECTOR, "#model-table tbody .tick input:not(:checked)")
    tick.send_keys(Keys.SPACE)
    wait(explorer, lambda b: texts(b, "#ensemble-summary")[0].startswith(f"ensemble: {members + 1} models"))
    assert explorer.switch_to.active_element == tick
    explorer.find_element(By.CSS_SELECTOR, "#toolbar summary").click()
    box = explorer.find_element(By.CSS_SELECTOR, "#values input")
    box.send_keys(Keys.SPACE)
    wait(explorer, lambda b: texts(b, "#visible")[0] != f"all {MODELS} models shown")
    assert explorer.switch_to.active_element == box


def test_disagreements_of_the_pair_are_counted(document, explorer):
    first, second = document.numbers["pair"]
    test = document.analysis.test
    a, b, y = test[first].predictions, test[second].predictions, test.labels
    rows = table(explorer, "#flips")
    counts = [int(row[2]) for row in rows]
    assert counts == sorted(counts, reverse=True)
    for row in rows:
        k, other = (int(name.removeprefix("class ")) for name in row[:2])
        both = (a == k) & (b == other)
        assert [int(cell) for cell in row[2:]] == [both.sum(), (both & (y == k)).sum(), (both & (y == other)).sum()]
    cells = explorer.execute_script("return charts.get('flips-chart').data.values")
    assert {(cell["a"], cell["b"]): cell["count"] for cell in cells} == {
        (f"class {k}", f"class {m}"): ((a == k) & (b == m)).sum() for k, m in itertools.permutations(range(CLASSES), 2)
    }


def test_the_map_and_the_overview_use_the_chosen_colours(document, explorer):
    explorer.find_element(By.CSS_SELECTOR, "#toolbar summary").click()
    Select(explorer.find_element(By.ID, "colour")).select_by_value("objective")
    title = "return charts.get('map').encoding.color.title"
    wait(explorer, lambda b: b.execute_script(title) == "objective")
    objectives = {outputs.name: outputs.card.objective for outputs in document.analysis.runs.values()}
    rows = explorer.execute_script("return charts.get('map').data.values")
    assert {row["name"]: row["group"] for row in rows} == objectives
    rows = explorer.execute_script("return charts.get('overview-chart').data.values")
    assert {row["name"]: row["group"] for row in rows if len(row["members"]) == 1} == objectives
    assert {row["group"] for row in rows if len(row["members"]) > 1} <= {"ensemble"}


def test_keyboard_navigation(document, explorer):
    names = document.analysis.runs.names
    explorer.find_element(By.ID, "pair-first").send_keys(Keys.ARROW_DOWN)
    wait(explorer, lambda b: hash_of(b) != "")
    first = int(explorer.find_element(By.ID, "pair-first").get_attribute("value"))
    assert hash_of(explorer).startswith(f"#pair={names[first]},")
    tick = explorer.find_element(By.CSS_SELECTOR, "#model-table tbody .tick input")
    before = tick.is_selected()
    tick.send_keys(Keys.SPACE)
    assert tick.is_selected() != before
    assert "ensemble=" in hash_of(explorer)
    examples = explorer.find_element(By.ID, "example-list")
    examples.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
    assert explorer.find_element(By.ID, "example-open").is_displayed()
    assert explorer.execute_script("return document.querySelector('.line[aria-selected=true]').dataset.place") == "2"
    examples.send_keys(Keys.END)
    assert explorer.execute_script("return document.querySelector('.line[aria-selected=true]').ariaPosInSet") == str(
        len(document.analysis.runs.labels)
    )


def test_markup_in_names_is_shown_as_text(browser, tmp_path):
    document = odd_document()
    page = tmp_path / "odd.html"
    page.write_text(to_explorer(document))
    browser.get_log("browser")
    opened(browser, page)
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    assert browser.title == document.title
    known = [as_text(name) for name in ODD]
    assert browser.execute_script("return [...document.getElementById('pair-first').options].map((one) => one.text)") == [
        as_text(row["model"]) for row in document.numbers["models"]
    ]
    owned = browser.execute_script("return [...document.querySelectorAll('#owned tbody th')].map((one) => one.textContent)")
    assert sorted(owned) == sorted(known)
    browser.find_element(By.CSS_SELECTOR, "#example-list .line").click()
    row = browser.execute_script("return explorer.state.open")
    assert browser.execute_script("return document.querySelector('#example-open h3').textContent") == as_text(
        document.analysis.runs[ODD[0]].ids[row]
    )
    marked_up = "main img:not([src^='data:image/']), main script, main b b"
    assert browser.execute_script("return document.querySelectorAll(arguments[0]).length", marked_up) == 0
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    phone = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        browser.refresh()  # the same address shows the same example
        wait(browser, lambda b: b.execute_script("return document.body.dataset.complete"))
        assert browser.execute_script("return explorer.state.open") == row
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_pairs_are_exact_if_the_page_keeps_only_top_classes(browser, tmp_path, monkeypatch):
    monkeypatch.setattr(page_arrays, "MAX_CHARACTERS", 1)
    document = compose(ReportInputs(made_runs(4, 400, 8)), steps=2)
    page = tmp_path / "top.html"
    page.write_text(to_explorer(document))
    opened(browser, page)
    assert browser.execute_script("return explorer.data.about.kept") == {"kind": "top", "planes": 2, "top": 2}
    names, test = document.analysis.runs.names, document.analysis.test
    for a, b in itertools.permutations(names, 2):
        go(browser, f"#pair={a},{b}")
        complete_pair(browser, names, a, b)
        found = browser.execute_script(MEASURED)
        for name, (value, low, high) in diversity.compare(test[a], test[b]).measured().items():
            measure = MEASURES[name]
            if name in ("capa", "mean_theta"):  # from rounded probabilities
                assert float(found[name][0]) == pytest.approx(value, abs=0.1 if name == "capa" else 1e-4)
                continue
            assert found[name][0] == measure_text(value, measure), (a, b, name)
            if measure.has_interval:
                assert_interval(found[name][1], low, high, measure)


@pytest.mark.slow
def test_a_hundred_models_on_ten_thousand_examples(browser, tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 10_000)
    shared = rng.normal(size=(10_000, 10)) + 2 * np.eye(10)[labels]
    runs = Runs(
        Outputs.from_arrays(f"m{i}", logits=shared + rng.normal(size=shared.shape), labels=labels, temperature=1.0)
        for i in range(100)
    )
    document = compose(ReportInputs(runs), steps=3)
    page = tmp_path / "large.html"
    page.write_text(to_explorer(document))
    assert page.stat().st_size < 8e6
    browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})

    def busy():  # CPU time of the page's thread, which does not depend on the load of the machine
        metrics = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return {one["name"]: one["value"] for one in metrics}["TaskDuration"]

    before = busy()
    browser.get(page.as_uri())
    WebDriverWait(browser, 300, 0.05).until(lambda b: b.execute_script("return document.body.dataset.complete"))
    assert busy() - before < 4
    WebDriverWait(browser, 300).until(lambda b: b.execute_script("return document.getElementById('pair').dataset.complete"))
    before = busy()
    for tick in browser.find_elements(By.CSS_SELECTOR, "#model-table tbody .tick input")[:5]:
        browser.execute_script("arguments[0].click()", tick)
    assert (busy() - before) / 5 < 0.1
    # The rounding error that the page states holds for the ensemble shown.
    members = browser.execute_script("return explorer.state.members")
    test = runs.select(document.analysis.splits[1])
    exact = ensembles.improvement(Runs(test[f"m{i}"] for i in members)).ensemble_accuracy
    printed = {row[0]: row[2] for row in scores(browser) if row[0] == "accuracy"}["accuracy"]
    bound = re.search(r"within \+([\d.]+) points", browser.find_element(By.ID, "ensemble-close").text)
    assert abs(float(printed.rstrip("%")) - 100 * exact) <= float(bound[1]) + 0.1


def test_predictions_are_combined_by_voting(browser, tmp_path):
    labels = np.random.default_rng(0).integers(0, 3, 90)
    predicted = {}
    for seed, name in enumerate("abc"):
        rng = np.random.default_rng(seed + 1)
        predicted[name] = np.where(rng.random(90) < 0.7, labels, rng.integers(0, 3, 90))
    predicted["c"][:4] = -1
    runs = Runs(Outputs.from_arrays(n, predictions=p, labels=labels, classes=["x", "y", "z"]) for n, p in predicted.items())
    document = compose(ReportInputs(runs), steps=2)
    page = tmp_path / "votes.html"
    page.write_text(to_explorer(document))
    browser.get_log("browser")
    opened(browser, page)
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    go(browser, "#ensemble=a,b,c&pair=a,c")
    complete_pair(browser, runs.names, "a", "c")
    test = runs.select(document.analysis.splits[1])
    expected = ensembles.improvement(test, combine="predictions")
    found = {row[0]: row[1:] for row in scores(browser)}
    assert found["accuracy"][1] == f"{expected.ensemble_accuracy:.1%}"
    assert "nll" not in found
    comparison = diversity.compare(test["a"], test["c"])
    measures = {row[0]: row[1] for row in table(browser, "#measures")}
    assert measures["chance-adjusted (CAPA)"] == shown(float(comparison.capa))
    assert "accuracy of the ensemble" not in measures
