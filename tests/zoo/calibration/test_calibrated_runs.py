"""`calibrate`: temperatures come from other examples than the ones they are applied to."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raised import fields
from scipy.special import expit, softmax
from sklearn.metrics import log_loss

from zoo.calibration import calibrate, fit_temperature, to_probabilities
from zoo.calibration.calibrated_runs import refit_for_selection
from zoo.core import files
from zoo.core.splits import fold_numbers, stratified_split
from zoo.errors import InputError, UnknownName, ZooWarning
from zoo.outputs import store
from zoo.outputs.outputs import Outputs, Runs
from zoo.runs.runner import run as run_models


def outputs(name="a", rows=400, classes=4, seed=0, scale=3.0, kind="logits", first_id=0, **more):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    z = scale * (rng.normal(size=(rows, classes)) + 1.5 * np.eye(classes)[y])
    values = {"logits": z, "probabilities": to_probabilities(z), "predictions": z.argmax(1)}[kind]
    ids = [f"image-{i}" for i in range(first_id, first_id + rows)]
    return Outputs.from_arrays(name, **{kind: values}, labels=y, ids=ids, **more)


def test_a_fraction_of_the_rows():
    runs = Runs([outputs("a"), outputs("b", seed=0, scale=0.2)])
    calibrated = calibrate(runs, temperatures_from=0.25, seed=3)
    assert len(calibrated["a"]) == 300
    assert len(calibrated.calibration_ids) == 100
    for name, run in calibrated.items():
        assert not set(run.ids) & set(calibrated.calibration_ids)
        chosen = np.isin(runs[name].ids, calibrated.calibration_ids)
        expected = fit_temperature(runs[name].logits[chosen], runs[name].labels[chosen])
        assert run.temperature == expected.temperature == calibrated.fits[name].temperature
        np.testing.assert_allclose(run.probabilities, to_probabilities(run.logits, run.temperature))
        assert run.details["calibration"]["share"] == 0.25
    assert calibrated["a"].temperature == pytest.approx(15 * calibrated["b"].temperature, rel=1e-6)
    again = calibrate(runs, temperatures_from=0.25, seed=3)
    assert again["a"].ids.tolist() == calibrated["a"].ids.tolist()
    assert calibrate(runs, temperatures_from=0.25, seed=4)["a"].ids.tolist() != calibrated["a"].ids.tolist()


def test_runs_in_another_order_are_aligned_first():
    a = outputs("a")
    b = outputs("b", seed=0).select(np.random.default_rng(0).permutation(400))
    calibrated = calibrate(Runs([a, b]))
    assert calibrated["a"].ids.tolist() == calibrated["b"].ids.tolist()


def test_other_runs():
    held_out = outputs("a", seed=1, first_id=1000)
    calibrated = calibrate(outputs("a"), temperatures_from=held_out)
    assert len(calibrated["a"]) == 400
    assert calibrated["a"].temperature == fit_temperature(held_out.logits, held_out.labels).temperature
    frame = calibrated.to_frame()
    assert frame["model"].tolist() == ["a"]
    assert frame["nll_after"][0] <= frame["nll_before"][0]


def test_probabilities_are_calibrated_through_their_logarithm():
    from_logits = calibrate(outputs(), temperatures_from=outputs(seed=1, first_id=1000))["a"]
    from_probabilities = calibrate(
        outputs(kind="probabilities"), temperatures_from=outputs(kind="probabilities", seed=1, first_id=1000)
    )["a"]
    assert from_probabilities.temperature == pytest.approx(from_logits.temperature, rel=1e-6)
    np.testing.assert_allclose(from_probabilities.probabilities, from_logits.probabilities, atol=1e-7)


def test_a_probability_stored_as_zero_does_not_make_the_likelihood_infinite():
    held_out = outputs(kind="probabilities", scale=400.0, seed=1, first_id=1000)
    p = np.asarray(held_out.probabilities)
    assert (p[np.arange(len(p)), held_out.labels] == 0).any()
    assert calibrate(outputs(kind="probabilities"), temperatures_from=held_out).fits["a"].nll_after < np.inf


def test_the_link_of_the_model_is_used():
    held_out = outputs(seed=1, first_id=1000, link="sigmoid")
    calibrated = calibrate(outputs(link="sigmoid"), temperatures_from=held_out)["a"]
    assert calibrated.temperature == fit_temperature(held_out.logits, held_out.labels, "sigmoid").temperature
    np.testing.assert_allclose(
        calibrated.probabilities, to_probabilities(calibrated.logits, calibrated.temperature, "sigmoid")
    )


class TestOverlap:
    def test_same_dataset_and_ids(self):
        with pytest.raises(InputError, check=fields(where="a", problem="image-350", argument="temperatures_from")):
            calibrate(outputs(dataset="d:test"), temperatures_from=outputs(seed=1, first_id=350, dataset="d:test"))

    def test_same_rows_under_another_name(self):
        everything = outputs(rows=500)
        with pytest.raises(InputError, check=fields(problem="100 examples", argument="temperatures_from")):
            calibrate(everything.select(slice(0, 300)), temperatures_from=everything.select(slice(200, 500)))

    def test_row_numbers_of_different_sets_are_no_overlap(self):
        assert calibrate(outputs(dataset="d:test"), temperatures_from=outputs(seed=1, dataset="d:train"))["a"].temperature

    def test_one_and_the_same(self):
        with pytest.raises(InputError, check=fields(problem="400 examples", argument="temperatures_from")):
            calibrate(outputs(), temperatures_from=outputs())


class TestFaults:
    def test_made_with_other_weights(self):
        held_out = dataclasses.replace(outputs(seed=1, first_id=1000), details={"weights": "sha-2"})
        with pytest.raises(InputError, check=fields(where="a", problem="weights", found="'sha-1' and 'sha-2'")):
            calibrate(dataclasses.replace(outputs(), details={"weights": "sha-1"}), temperatures_from=held_out)

    def test_a_model_without_calibration_outputs(self):
        with pytest.raises(UnknownName, check=fields(name="b")):
            calibrate(Runs([outputs("a"), outputs("b")]), temperatures_from=outputs("a", seed=1, first_id=1000))

    def test_predictions_only(self):
        with pytest.raises(InputError, check=fields(where="a", problem="predictions")):
            calibrate(outputs(kind="predictions"))

    def test_no_labels(self):
        with pytest.raises(InputError, check=fields(where="a", problem="labels")):
            calibrate(dataclasses.replace(outputs(), labels=None))

    @pytest.mark.parametrize("share", [0.0, 1.0, -0.5, 2])
    def test_share(self, share):
        with pytest.raises(InputError, check=fields(argument="temperatures_from", found=share)):
            calibrate(outputs(), temperatures_from=share)

    def test_nothing(self):
        with pytest.raises(InputError, check=fields(argument="runs", found=0)):
            calibrate([])

    def test_one_row(self):
        with pytest.raises(InputError, check=fields(argument="runs", found=1)), pytest.warns(ZooWarning):
            calibrate(outputs(rows=1))


def test_a_temperature_is_recorded_beside_stored_outputs_and_applied_on_request_only(zoo_home):
    saved = store.save(outputs(dataset="d:test"))
    held_out = outputs(seed=1, first_id=1000, dataset="d:calibration")
    calibrated = calibrate(saved, temperatures_from=held_out)
    assert calibrated.population == "all 400 examples; temperatures fitted on 400 rows of d:calibration"
    assert calibrated["a"].calibration == "400 rows of d:calibration"
    opened = store.open_runs("a")["a"]
    assert (opened.temperature, opened.calibration) == (None, "none")
    np.testing.assert_array_equal(opened.probabilities, saved.probabilities)
    (record,) = store.read_fits(opened.path).values()
    assert (record["split"], record["rows"]) == ("d:calibration", 400)
    assert record["digest"] == files.digest([*held_out.ids.tolist(), held_out.labels.tobytes()])
    assert (record["link"], record["at_bound"]) == ("softmax", False)
    asked = calibrate(opened, temperatures_from="stored")
    assert asked["a"].temperature == calibrated["a"].temperature == record["temperature"]
    assert asked.population == "all 400 examples; temperatures stored earlier, fitted on 400 rows of d:calibration"
    np.testing.assert_allclose(asked["a"].probabilities, calibrated["a"].probabilities)


def test_what_was_calibrated_before_changes_no_number(zoo_home):
    saved = store.save(outputs(dataset="d:test"))
    before = calibrate(store.open_runs("a"))
    calibrate(saved, temperatures_from=outputs(seed=1, scale=30.0, first_id=1000, dataset="d:calibration"))
    after = calibrate(store.open_runs("a"))
    assert after["a"].temperature == before["a"].temperature
    assert after.population == before.population == "all 400 examples; temperatures cross-fitted in 5 folds"


def test_stored_temperatures_that_are_not_there_or_not_one(zoo_home):
    saved = store.save(outputs(dataset="d:test"))
    with pytest.raises(InputError, check=fields(where="a", argument="temperatures_from", found="none")):
        calibrate(saved, temperatures_from="stored")
    for number in (1, 2):
        calibrate(saved, temperatures_from=outputs(seed=number, first_id=1000, dataset=f"d:{number}"))
    with pytest.raises(InputError, check=fields(where="a", argument="temperatures_from", found="d:1, d:2")):
        calibrate(saved, temperatures_from="stored")


def test_without_a_split_the_calibration_split_of_the_dataset_is_run_as_the_outputs_were(tmp_path):
    options = {"pretrained": False, "precision": "bfloat16", "home": tmp_path / "elsewhere", "progress": False}
    runs = run_models("resnet8-softmax", data="digits:test", **options)
    calibrated = calibrate(runs)
    (name,) = calibrated
    assert calibrated.population == f"all {len(runs[name])} examples; temperatures fitted on 299 rows of digits:calibration"
    (other,) = store.open_runs(name, "digits:calibration", tmp_path / "elsewhere").values()
    for field in ("weights", "precision", "transform"):
        assert other.details[field] == runs[name].details[field]
    assert calibrated[name].temperature == fit_temperature(other.logits, other.labels, other.link).temperature


def test_imported_outputs_without_a_calibration_split_are_cross_fitted(zoo_home):
    imported = store.save(outputs("resnet8-softmax", classes=10, dataset="digits:test"))
    calibrated = calibrate(imported)
    assert len(calibrated["resnet8-softmax"]) == 400
    assert "digits:calibration" in calibrated.population
    store.save(outputs("resnet8-softmax", classes=10, seed=1, first_id=1000, dataset="digits:calibration"))
    assert "400 rows of digits:calibration" in calibrate(imported).population


def test_a_temperature_from_the_same_rows_is_not_kept(zoo_home):
    saved = store.save(outputs(dataset="d:test"))
    assert calibrate(saved, temperatures_from=0.5)["a"].temperature is not None
    assert store.read_fits(saved.path) == {}


@pytest.mark.parametrize("share", [True, False])
def test_the_report_is_of_rows_that_no_temperature_was_fitted_on(share):
    runs = Runs([outputs("a", scale=4.0), outputs("b", scale=0.5)])
    held_out = (
        0.5 if share else Runs([outputs(name, seed=1, first_id=1000, scale=s) for name, s in (("a", 4.0), ("b", 0.5))])
    )
    calibrated = calibrate(runs, temperatures_from=held_out)
    assert not set(calibrated.calibration_ids.tolist()) & set(calibrated["a"].ids.tolist())
    for row in calibrated.to_frame().to_dict("records"):
        reported = calibrated[row["model"]]
        rows = np.array([int(row_id.removeprefix("image-")) for row_id in reported.ids])
        z, y = np.asarray(runs[row["model"]].logits, float)[rows], runs[row["model"]].labels[rows]
        for when, temperature in (("before", 1.0), ("after", reported.temperature)):
            p = softmax(z / temperature, axis=1)
            assert row[f"nll_{when}"] == pytest.approx(log_loss(y, p, labels=range(p.shape[1])), rel=1e-5)
            assert row[f"ece_{when}"] == pytest.approx(naive_ece(p, y), abs=1e-6)
        assert row["rows"] == len(rows)
        assert row["nll_after"] != pytest.approx(calibrated.fits[row["model"]].nll_after, abs=1e-4)
        assert row["fitted_on"] == f"{len(calibrated.calibration_ids)} rows of other examples"


def naive_ece(p, y):
    confidence, right = p.max(1), p.argmax(1) == y
    total = 0.0
    for low in np.arange(15) / 15:
        inside = (confidence > low) & (confidence <= low + 1 / 15)
        total += abs(confidence[inside].sum() - right[inside].sum())
    return total / len(y)


def test_sigmoids_calibrated_as_a_distribution(tmp_path):
    made = dataclasses.replace(outputs("s", scale=3.0), link="sigmoid")
    held_out = dataclasses.replace(outputs("s", seed=1, first_id=1000, scale=3.0), link="sigmoid")
    stored = store.save(made, home=tmp_path)
    calibrated = calibrate(stored, temperatures_from=held_out, temperature_space="distribution")
    found = calibrated["s"]
    p = expit(np.asarray(made.logits, float)) ** (1 / found.temperature)
    np.testing.assert_allclose(found.probabilities, p / p.sum(1, keepdims=True), rtol=1e-4, atol=1e-7)
    assert found.predictions.tolist() == made.predictions.tolist()
    assert calibrated.to_frame()["temperature_space"].tolist() == ["distribution"]
    assert calibrated.to_frame()["link"].tolist() == ["sigmoid"]
    again = calibrate(store.open_runs("s", home=tmp_path), temperatures_from="stored")["s"]
    np.testing.assert_array_equal(again.probabilities, found.probabilities)
    other = calibrate(made, temperatures_from=held_out)["s"]
    assert other.temperature != pytest.approx(found.temperature, rel=0.05)
    with pytest.raises(InputError, check=fields(argument="temperature_space", found="odds")):
        calibrate(made, temperatures_from=held_out, temperature_space="odds")


class TestCrossFitting:
    @pytest.mark.parametrize("kind", ["logits", "probabilities"])
    @pytest.mark.parametrize("link", ["softmax", "sigmoid"])
    def test_every_example_is_scored_at_the_temperature_of_the_other_folds(self, kind, link):
        if kind == "probabilities" and link == "sigmoid":
            pytest.skip("probabilities have no link")
        made = outputs(kind=kind, link=link) if kind == "logits" else outputs(kind=kind)
        calibrated = calibrate(made, seed=2)["a"]
        fold = fold_numbers(made.labels, 5, 2, made.ids)
        z = np.asarray(made.logits, float)
        for number in range(5):
            others, rows = fold != number, fold == number
            temperature = fit_temperature(z[others], made.labels[others], link).temperature
            expected = to_probabilities(z[rows], temperature, link)
            np.testing.assert_allclose(np.asarray(calibrated.probabilities)[rows], expected, atol=2e-6)
        assert calibrated.temperature == pytest.approx(fit_temperature(z, made.labels, link).temperature, rel=1e-6)
        assert calibrated.predictions.tolist() == made.predictions.tolist()

    def test_an_example_does_not_affect_its_own_temperature(self):
        made = outputs(rows=60)
        before = np.asarray(calibrate(made)["a"].probabilities)
        for row in (0, 17, 59):
            labels = made.labels.copy()
            # The new label keeps the folds: it swaps with a row of the same fold.
            fold = fold_numbers(labels, 5, 0, made.ids)
            other = next(i for i in np.flatnonzero(fold == fold[row]) if labels[i] != labels[row])
            labels[[row, other]] = labels[[other, row]]
            after = np.asarray(calibrate(dataclasses.replace(made, labels=labels))["a"].probabilities)
            if (fold_numbers(labels, 5, 0, made.ids) == fold).all():
                np.testing.assert_allclose(after[fold == fold[row]], before[fold == fold[row]], atol=1e-6)
                assert np.abs(after - before).max() > 1e-6

    def test_metrics_before_are_those_without_a_temperature(self):
        made = outputs()
        row = calibrate(made).to_frame().iloc[0]
        expected = log_loss(made.labels, softmax(np.asarray(made.logits, float), axis=1))
        assert row["nll_before"] == pytest.approx(expected, rel=1e-5)
        assert row["rows"] == 400

    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 10**6), st.integers(20, 60))
    @pytest.mark.filterwarnings("ignore::zoo.errors.ZooWarning")  # small draws are often separable
    def test_order_of_models_rows_and_classes_changes_nothing(self, seed, rows):
        rng = np.random.default_rng(seed)
        a, b = outputs("a", rows=rows, seed=seed), outputs("b", rows=rows, seed=seed, scale=0.7)
        order, columns = rng.permutation(rows), rng.permutation(4)
        names = [str(k) for k in range(4)]
        shuffled = Outputs.from_arrays(
            "b",
            logits=np.asarray(b.logits)[order][:, columns],
            labels=np.argsort(columns)[b.labels[order]],
            ids=b.ids[order],
            classes=[names[k] for k in columns],
        )
        first = calibrate(Runs([a, b]))
        second = calibrate(Runs([shuffled, a]))
        for name in ("a", "b"):
            assert second[name].temperature == pytest.approx(first[name].temperature, rel=1e-6)
            position = {row_id: i for i, row_id in enumerate(second[name].ids.tolist())}
            rows_there = [position[row_id] for row_id in first[name].ids.tolist()]
            columns_there = [second[name].classes.index(one) for one in first[name].classes]
            found = np.asarray(second[name].probabilities)[rows_there][:, columns_there]
            np.testing.assert_allclose(found, first[name].probabilities, atol=1e-5)

    @pytest.mark.parametrize("temperatures_from", [0.5, None])
    def test_swapping_two_models_with_other_class_orders(self, temperatures_from):
        a, b = outputs("a"), outputs("b", scale=1.0)
        reversed_b = Outputs.from_arrays(
            "b", logits=np.asarray(b.logits)[:, ::-1].copy(), labels=3 - b.labels, ids=b.ids, classes=["3", "2", "1", "0"]
        )
        one = calibrate(Runs([a, reversed_b]), temperatures_from)
        two = calibrate(Runs([reversed_b, a]), temperatures_from)
        assert one["a"].ids.tolist() == two["a"].ids.tolist()
        assert one["a"].temperature == pytest.approx(two["a"].temperature, rel=1e-9)

    def test_test_labels_do_not_leak_into_a_refit(self):
        runs = Runs([outputs("a"), outputs("b", scale=0.4)])
        selection = stratified_split(runs.labels, 0.5, 0, runs["a"].ids)
        rng = np.random.default_rng(1)
        refitted = []
        for labels in (runs.labels, np.where(selection, runs.labels, rng.integers(0, 4, 400))):
            relabelled = Runs(dataclasses.replace(one, labels=labels) for one in runs.values())
            refitted.append(refit_for_selection(calibrate(relabelled), selection))
        for name in runs:
            np.testing.assert_allclose(refitted[0][name].probabilities, refitted[1][name].probabilities, atol=1e-5)
            chosen = fit_temperature(np.asarray(runs[name].logits)[selection], runs.labels[selection]).temperature
            expected = to_probabilities(np.asarray(runs[name].logits)[~selection], chosen)
            np.testing.assert_allclose(np.asarray(refitted[0][name].probabilities)[~selection], expected, atol=1e-5)

    def test_runs_that_were_not_cross_fitted_are_not_refitted(self):
        runs = calibrate(outputs(), temperatures_from=outputs(seed=1, first_id=1000))
        assert refit_for_selection(runs, np.arange(400) < 200) is runs

    def test_large_outputs_are_halved(self, monkeypatch):
        monkeypatch.setattr("zoo.calibration.policy.MAX_CROSS_FITTED", 100)
        assert calibrate(outputs()).population == "200 of 400 examples; the other 200 fitted the temperatures"
