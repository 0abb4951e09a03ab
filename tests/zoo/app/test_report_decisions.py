"""The report's sections on what to serve, add, trust elsewhere and doubt: the API's numbers, refusals, and the page."""

import json
import math
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from report_pages import opened
from typer.testing import CliRunner

import diversity
import ensembles
import zoo
from diversity.categories import COLOURS, TITLES
from ensembles.costs import count_flops
from zoo import datasets
from zoo.app.main import app
from zoo.app.report import labels as labels_part
from zoo.app.report.analysis import analyse
from zoo.app.report.candidates import candidates
from zoo.app.report.cascade import cascade
from zoo.app.report.compose import compose
from zoo.app.report.html import chart_specs, to_explorer, to_html
from zoo.app.report.inputs import ReportInputs
from zoo.app.report.labels import labels
from zoo.app.report.markdown import to_markdown
from zoo.app.report.models import models
from zoo.app.report.overview import overview
from zoo.app.report.training import training
from zoo.app.report.unlabelled import unlabelled
from zoo.app.terminal import plain
from zoo.errors import ZooWarning
from zoo.models import trained
from zoo.outputs import store
from zoo.outputs.outputs import Outputs, Runs

ROWS, CLASSES, FLIPPED = 800, 6, 40
MODELS = [
    "resnet8-softmax.digits", "resnet8-sigmoid.digits", "resnet8-cosine.digits", "resnet8-softmax-s1.digits",
    "resnet20-softmax.digits", "all-cnn-c-softmax.digits",
]  # fmt: skip
CANDIDATES = ["resnet20-softmax.cifar10", "resnet20-cosine.cifar10", "all-cnn-c-cosine.cifar10"]
IDS = [f"image-{row}" for row in range(ROWS)]
SECTIONS = ("serving", "candidates", "unlabelled", "labels")


def made(dataset: str = "digits:test", loss: float = 0.0, seed: int = 0, carded: bool = True, models: int = 6) -> Runs:
    """Networks of rising accuracy; the labels of the first examples are those of the next class."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, CLASSES, ROWS)
    given = np.where(np.arange(ROWS) < FLIPPED, (truth + 1) % CLASSES, truth)
    hard = rng.normal(size=(ROWS, CLASSES))
    found = []
    for i, name in enumerate(MODELS[:models]):
        z = (2.4 + 0.6 * i - loss) * np.eye(CLASSES)[truth] + hard + rng.normal(size=(ROWS, CLASSES))
        card = zoo.card(name) if carded else None
        found.append(
            Outputs.from_arrays(name, logits=1.5 * z, labels=given, dataset=dataset, ids=IDS, card=card, temperature=0.8)
        )
    return Runs(found)


def inputs() -> ReportInputs:
    pixels = np.random.default_rng(0).integers(0, 255, (ROWS, 8, 8, 3), np.uint8)
    return ReportInputs(
        made(),
        images=datasets.Dataset("digits:test", "digits:test", IDS, lambda row: Image.fromarray(pixels[row]), "0"),
        unlabelled=(made("digits:test~noise2", 0.3, 1),),
        candidates=tuple(zoo.card(name) for name in CANDIDATES),
    )


@pytest.fixture(scope="module")
def document():
    return compose(inputs(), steps=4)


@pytest.fixture(scope="module")
def pages(document, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name, write in (("static", to_html), ("explorer", to_explorer)):
        (folder / f"{name}.html").write_text(write(document))
    return {place.stem: place for place in folder.iterdir()}


def part_of(document, section):
    (found,) = (one for one in document.sections if one.id == section)
    (finding,) = (one for one in document.findings if one.section == section)
    return found, finding


def quiet(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZooWarning)
        return function(*arguments, **options)


def test_the_cascade_is_that_of_the_search_and_of_a_walk_through_the_examples(document):
    runs, halves = made(), ensembles.stratified_split(made().labels)
    path = quiet(ensembles.greedy, runs, steps=4, split=halves)
    members = path.members[: path.best]
    assert len(members) > 2
    expected = ensembles.cascade(runs, members=members, cost="flops", split=halves)
    found = document.numbers["cascade"]
    assert plain(found | {"settings": None}) == plain(expected.to_dict() | {"settings": None})
    assert (found["settings"]["cost"], found["settings"]["test_examples"]) == ("flops", len(halves[1]))

    total, asked, answer = np.zeros((len(halves[1]), CLASSES)), np.zeros(len(halves[1]), int), np.zeros(len(halves[1]), int)
    votes = []
    for member, threshold in zip(found["members"], [*found["thresholds"], -1], strict=True):
        probabilities = runs[member].probabilities_at(halves[1])
        going = asked == len(votes)
        total, votes = total + probabilities, [*votes, probabilities.argmax(1)]
        mean = total / len(votes)
        top = mean.argmax(1)
        ranked = np.sort(mean, 1)
        agreeing = np.sum([vote == top for vote in votes], 0)
        certain = {
            "confidence": ranked[:, -1],
            "margin": ranked[:, -1] - ranked[:, -2],
            "agreement": (agreeing - 1 + ranked[:, -1]) / len(votes),
        }[found["rule"]]
        answer[going] = top[going]
        asked += going & (certain < threshold)
        last = len(votes)
    asked = np.minimum(asked + 1, last)
    assert found["evaluated"] == pytest.approx([(asked > number).mean() for number in range(last)])
    right = (answer == runs.labels[halves[1]]).mean()
    assert found["test_score"] == pytest.approx(right)
    costs = np.cumsum(found["costs"])
    assert found["test_cost"] == pytest.approx(costs[asked - 1].mean())

    section, finding = part_of(document, "serving")
    (table,) = section.tables
    assert [row["member"] for row in table.rows] == found["members"]
    assert [row["MFLOPs"] for row in table.rows] == pytest.approx([cost / 1e6 for cost in found["costs"]], abs=0.5)
    assert [row["evaluated on"] for row in table.rows] == found["evaluated"]
    assert finding.number == f"{found['test_cost'] / found['full_ensemble']['cost']:.0%} of the cost"
    low, high = (f"{100 * end:z.1f}" for end in found["interval"])
    assert f"{right:.1%} accuracy" in finding.sentence
    assert f"{abs(100 * found['gain']):.1f} points {'below' if found['gain'] < 0 else 'above'}" in finding.sentence
    assert f"{low} to {high}" in finding.sentence
    assert "order and thresholds" in section.population


def test_no_weights_are_made_or_loaded_for_the_cost(zoo_home):
    known = analyse(ReportInputs(made()), steps=4)
    part = cascade(known)
    assert part.numbers["cascade"]["settings"]["cost"] == "flops"
    assert [place for place in zoo_home.rglob("*") if place.is_file()] == []


def test_the_overview_is_drawn_against_counted_flops(zoo_home):
    known = analyse(ReportInputs(made()), steps=4)
    expected = {name: count_flops(zoo.load(name, pretrained=False)) for name in known.runs}
    assert known.priced == ("FLOPs", expected)
    rows = overview(known).numbers["overview"]
    assert all(row["cost"] == sum(expected[name] for name in row["members"]) for row in rows)
    assert {row["model"]: row["FLOPs"] for row in models(known).numbers["models"]} == expected


def test_training_curves_are_those_of_the_logs(zoo_home):
    known = analyse(ReportInputs(made()), steps=4)
    assert training(known) is None
    entries = [{"epoch": epoch, "accuracy": 0.1 * epoch, "holdout_accuracy": 0.05 * epoch} for epoch in (1, 2, 3)]
    name = known.runs.names[1]
    folder = trained.path(name).parent
    folder.mkdir(parents=True)
    (folder / "log.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    part = training(known)
    rows = part.numbers["training"]
    assert {row["model"] for row in rows} == {name}
    for field, title in (("accuracy", "training"), ("holdout_accuracy", "held-out")):
        curve = {row["epoch"]: row["accuracy"] for row in rows if row["examples"] == title}
        assert curve == {entry["epoch"]: entry[field] for entry in entries}
    (folder / "log.jsonl").write_text("damaged")
    assert training(known) is None


@pytest.mark.parametrize("unknown", ["no card", "a card of nothing that can be built"])
def test_cost_is_the_number_of_members_where_flops_are_unknown(unknown):
    runs = made(carded=False)
    if unknown != "no card":
        lost = replace(zoo.card(MODELS[0]), source="local", id="nowhere")
        runs = Runs(
            replace(one, card=replace(lost, name=f"lost-{i}"), name=f"lost-{i}") for i, one in enumerate(runs.values())
        )
    part = cascade(analyse(ReportInputs(runs), steps=4))
    found = part.numbers["cascade"]
    assert set(found["costs"]) == {1.0}
    assert found["full_ensemble"]["cost"] == len(found["full_ensemble"]["members"])
    assert part.section.tables[0].columns == ["member", "evaluated on", f"stops at {found['rule']}"]
    assert "evaluated members" in part.section.lead


def test_one_member_and_votes_have_no_cascade():
    same = next(iter(made().values()))
    twins = Runs(replace(same, name=name) for name in ("a", "b"))
    assert cascade(analyse(ReportInputs(twins))) is None
    bare = Runs(Outputs.from_arrays(n, predictions=o.predictions, labels=o.labels) for n, o in made().items())
    known = analyse(ReportInputs(bare))
    assert cascade(known) is None
    assert labels(known) is None


def test_doubted_labels_are_those_of_triage_and_those_that_were_flipped(document):
    runs = made()
    expected = diversity.triage(runs)
    found = document.numbers["labels"]
    assert found["kinds"] == expected.counts()
    first = expected.of_kind("mislabelled").head(20)
    assert [row["id"] for row in found["first"]] == first["id"].tolist()

    section, finding = part_of(document, "labels")
    kinds, doubted = section.tables
    assert {row["kind"]: row["examples"] for row in kinds.rows} == expected.counts()
    said = {name: outputs.predictions for name, outputs in runs.items()}
    assert len(doubted.rows) == 20
    assert doubted.title == f"Likely mislabelled: the first 20 of {expected.counts()['mislabelled']}"
    for row in doubted.rows:
        at = IDS.index(row["example"])
        assert at < FLIPPED
        assert row["label"] == str(runs.labels[at])
        assert row["suggested"] == str((runs.labels[at] - 1) % CLASSES)
        assert row["models that disagree"] == sum(p[at] != runs.labels[at] for p in said.values())
        assert row["models for the suggestion"] == sum(str(p[at]) == row["suggested"] for p in said.values())
    assert [image.name for image in section.images] == [row["example"] for row in doubted.rows[:12]]
    count = expected.counts()["mislabelled"]
    assert finding.number == f"{count} labels"
    assert finding.sentence.startswith(f"{count} labels of {ROWS} ")


def test_models_do_not_judge_labels_that_they_learnt_or_do_not_know():
    assert labels(analyse(ReportInputs(made("digits:train")))) is None
    strangers = made()
    other = np.random.default_rng(9).integers(0, CLASSES, ROWS)
    assert labels(analyse(ReportInputs(Runs(replace(one, labels=other) for one in strangers.values())))) is None


def test_of_very_many_examples_some_are_looked_at(monkeypatch):
    monkeypatch.setattr(labels_part, "MAX_WORK", len(MODELS) * CLASSES * 300)
    part = labels(analyse(ReportInputs(made())))
    rows = np.unique(np.linspace(0, ROWS - 1, 300).astype(int))
    assert part.numbers["labels"]["examples"] == 300
    assert part.numbers["labels"]["kinds"] == diversity.triage(made().select(rows)).counts()
    assert part.section.population.startswith("300 examples, evenly spaced")


def test_accuracy_elsewhere_is_that_of_the_api_and_near_the_truth(document):
    there = made("digits:test~noise2", 0.3, 1)
    expected = diversity.accuracy_without_labels(there, made())
    assert expected.refusal is None
    (found,) = document.numbers["unlabelled"]
    assert plain(found) == plain({"data": "digits:test~noise2", **expected.to_dict()})
    section, finding = part_of(document, "unlabelled")
    (table,) = section.tables
    shown = {row["model"]: row for row in table.rows}
    for row in expected.frame.to_dict(orient="records"):
        assert shown[row["model"]]["estimate"] == row["accuracy"]
        assert shown[row["model"]]["labelled accuracy"] == pytest.approx(made()[row["model"]].accuracy)
        assert abs(row["accuracy"] - there[row["model"]].accuracy) < 0.08
    best = document.numbers["best"]["model"]
    row = expected.frame.set_index("model").loc[best]
    assert finding.number == f"{row['accuracy']:.1%}"
    assert best.removesuffix(".digits") in finding.sentence
    assert f"{ROWS} unlabelled" in finding.sentence
    assert f"{100 * row['low']:.1f} to {100 * row['high']:.1f}" in finding.sentence

    (figure,) = section.figures
    spec = figure.chart.to_dict()
    dots = spec["datasets"][spec["layer"][1]["data"]["name"]]
    said = [{name: one.predictions for name, one in runs.items()} for runs in (made(), there)]
    pairs = [dot for dot in dots if dot["what"] == "agreement of a pair"]
    assert len(pairs) == math.comb(len(MODELS), 2)
    for dot in pairs:
        for side, own in zip(("labelled", "unlabelled"), said, strict=True):
            share = np.mean(own[dot["first"]] == own[dot["second"]])
            assert 0.5 * math.erfc(-dot[side] / math.sqrt(2)) == pytest.approx(share, abs=1e-5)


def test_where_there_is_no_line_the_reason_is_the_finding():
    rng = np.random.default_rng(0)
    noise = Runs(
        replace(one, values=Outputs.from_arrays("x", logits=rng.normal(size=(ROWS, CLASSES))).values, dataset="noise")
        for one in made().values()
    )
    part = unlabelled(analyse(ReportInputs(made(), unlabelled=(noise, made("digits:test~noise2", 0.3, 1)))))
    expected = diversity.accuracy_without_labels(noise, made())
    (finding,) = part.findings
    assert expected.refusal is not None
    assert finding.number == "no estimate"
    assert f"noise: {expected.refusal}. " in finding.sentence
    assert "estimated accuracy of" in finding.sentence  # on the other dataset
    assert part.section.tables[0].columns == ["model", "labelled accuracy", "average confidence", "ATC"]
    assert "estimate" in part.section.tables[1].columns
    few = unlabelled(analyse(ReportInputs(made(models=3), unlabelled=(made("new", models=3),))))
    assert few.findings[0].warning
    assert few.numbers["unlabelled"][0]["refusal"].rstrip(".") in few.findings[0].sentence
    assert "4 models" in few.numbers["unlabelled"][0]["refusal"]


def test_candidates_are_judged_beside_the_best_model_on_the_test_half(document):
    runs = made()
    test = runs.select(ensembles.stratified_split(runs.labels)[1])
    best = document.numbers["best"]["model"]
    expected = ensembles.recommend(test, [zoo.card(name) for name in CANDIDATES], best)
    found = document.numbers["candidates"]
    assert plain(found["candidates"]) == plain(expected.table)
    assert (found["base"], found["count"]) == ([best], 3)
    section, finding = part_of(document, "candidates")
    assert [row["candidate"] for row in section.tables[0].rows] == expected.table["model"].tolist()
    assert [row["gain, points"] for row in section.tables[0].rows] == expected.table["gain"].tolist()
    first = expected.table.iloc[0]
    assert finding.number == f"{100 * first['gain']:+z.1f} points"
    assert expected.best in finding.sentence
    assert best.removesuffix(".digits") in finding.sentence
    assert finding.warning == (first["low"] <= 0)


def test_many_candidates_are_cut_short_and_votes_have_no_answer():
    own = zoo.card(CANDIDATES[0])
    many = tuple(replace(own, name=f"candidate-{i}") for i in range(130))
    part = candidates(analyse(ReportInputs(made(), candidates=many)))
    assert part.section.tables[0].title == "The first 20 of 130 candidates"
    assert "129 others" in part.findings[0].sentence
    assert len(part.section.tables[0].rows) == 20
    assert (len(part.numbers["candidates"]["candidates"]), part.numbers["candidates"]["count"]) == (100, 130)
    bare = Runs(Outputs.from_arrays(n, predictions=o.predictions, labels=o.labels) for n, o in made().items())
    refused = quiet(candidates, analyse(ReportInputs(bare, candidates=many[:2])))
    assert refused.findings[0].number == "no prediction"
    assert refused.numbers["candidates"]["refusal"] in refused.findings[0].sentence


def test_sections_stand_in_every_form_of_the_report(document, pages):
    ids = [section.id for section in document.sections if section.id != "training"]  # a log may be in the user's home
    assert ids == [
        "overview", "models", "errors", "pair", "ensemble", "serving", "candidates", "classes-section", "calibration",
        "unlabelled", "labels",
    ]  # fmt: skip
    text = to_markdown(document)
    for section in SECTIONS:
        own, finding = part_of(document, section)
        assert f"## {own.title}\n" in text
        assert finding.sentence in text
        assert own.population
        for page in pages.values():
            assert f'<section id="{section}"' in page.read_text()
            assert f'href="#{section}"' in page.read_text()
    assert not re.search(r"\bnan\b", text, re.IGNORECASE)
    json.dumps(plain(document.numbers), allow_nan=False)


def test_names_leave_out_the_ending_that_all_share(document, pages):
    assert ".digits" in document.subtitle
    assert not any(".digits" in finding.sentence for finding in document.findings if finding.headline)
    for page in pages.values():
        text = page.read_text()
        assert '<span title="resnet8-softmax.digits">resnet8-softmax</span>' in text
        assert 'data-name="resnet8-softmax.digits"' in text


def test_training_categories_are_spelled_out_in_one_colour_each(document):
    spec = chart_specs(document)["categories"]
    colours = [layer["encoding"]["color"]["scale"] for layer in spec["layer"] if "color" in layer["encoding"]]
    shown = {row["category"] for row in spec["datasets"][spec["data"]["name"]]}
    assert shown
    for scale in colours:
        found = dict(zip(scale["domain"], scale["range"], strict=True))
        assert found == {TITLES[name]: colour for name, colour in COLOURS.items() if TITLES[name] in shown}


def test_one_command_gives_all_of_them(zoo_home):
    for runs in (made(carded=False), made("shifted", 0.6, 1, carded=False)):
        for outputs in runs.values():
            data = "cifar10:test" if outputs.dataset == "digits:test" else outputs.dataset
            store.save(replace(outputs, name=outputs.name.replace(".digits", "-mine"), dataset=data))
    arguments = ["report", "*-mine", "--data", "cifar10:test", "--unlabelled", "shifted", "--json"]
    arguments += [part for name in CANDIDATES for part in ("--candidates", name)]
    found = json.loads(CliRunner().invoke(app, arguments, catch_exceptions=False).stdout)
    assert found["unlabelled"][0]["data"] == "shifted"
    assert {row["model"] for row in found["candidates"]["candidates"]} == set(CANDIDATES)
    assert found["labels"]["kinds"]["mislabelled"] > 0
    assert len(found["cascade"]["members"]) > 1


@pytest.mark.parametrize("option", ["unlabelled", "transfer"])
def test_imported_outputs_have_no_models_to_run(tmp_path, option):
    for name, outputs in made(carded=False, models=2).items():
        np.savez(tmp_path / f"{name}.npz", logits=outputs.logits, labels=outputs.labels)
    result = CliRunner().invoke(app, ["report", "--from", str(tmp_path), f"--{option}", "digits:test"])
    assert result.exception.argument == option


def test_whatever_names_hold_is_text():
    def odd(runs: Runs, data: str) -> Runs:
        found = [replace(one, name=f"<b>{i}|", dataset=data) for i, one in enumerate(runs.values())]
        return Runs(found)

    there = odd(made("", 0.6, 1, carded=False), "<i>new")
    cards = tuple(replace(zoo.card(name), name=f"<u>{name}") for name in CANDIDATES)
    document = compose(ReportInputs(odd(made(carded=False), "<i>old"), unlabelled=(there,), candidates=cards), steps=3)
    assert {section.id for section in document.sections} >= set(SECTIONS)
    assert "<i>new" in document.sections[-2].tables[0].title
    shown = to_html(document).split('<script type="application/json"', 1)[0]
    for text in (shown, to_markdown(document)):
        assert not re.search("<[biu]>", text)


LEADS = "return arguments[0].map((id) => document.querySelector(`#${id} > p`).textContent)"
MARKED = f"(of all {len(MODELS)} models)"


def test_the_pages_in_a_browser(pages, browser):
    for kind, width in (("static", 1300), ("explorer", 1300), ("explorer", 390)):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get("about:blank")
        browser.get_log("browser")
        try:
            opened(browser, pages[kind])
            assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        finally:
            browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        for figure in ("cascades", "gains", "agreements-0"):
            assert browser.find_elements("css selector", f"#{figure} .chart svg .role-mark path"), figure


def test_hidden_models_leave_what_can_follow_and_mark_the_rest(document, pages, browser):
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get("about:blank")
    browser.get_log("browser")
    opened(browser, pages["explorer"])
    before = browser.execute_script(LEADS, SECTIONS)
    assert not any(MARKED in lead for lead in before)
    gone = document.numbers["cascade"]["members"][0]
    kept = ",".join(str(i) for i, name in enumerate(MODELS) if name != gone)
    browser.execute_script("location.hash = arguments[0]", f"#hide:model={gone}")
    WebDriverWait(browser, 60).until(lambda b: b.execute_script("return document.body.dataset.found") == kept)
    assert browser.execute_script(LEADS, SECTIONS) == [f"{lead} {MARKED}" for lead in before]
    said = browser.execute_script(
        "return arguments[0].map((id) => document.querySelector(`.findings li[data-section=${id}]`).textContent)", SECTIONS
    )
    for section, text in zip(SECTIONS, said, strict=True):
        _, finding = part_of(document, section)
        assert " ".join(text.split()) == f"{finding.title} {finding.number} {finding.sentence} {MARKED}"
    names = "return [...document.querySelectorAll(arguments[0] + ' tbody tr:not(.out) th')].map((one) => one.textContent)"
    assert gone.removesuffix(".digits") not in browser.execute_script(names, "#unlabelled-0")
    assert gone.removesuffix(".digits") in browser.execute_script(names, "#cascade")  # which is not computed again
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
