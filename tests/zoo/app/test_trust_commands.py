"""`zoo trust` and `zoo ood` on stored outputs, compared with the functions of the package."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from raised import fields

import diversity
import ensembles
from diversity.intervals import wilson
from zoo.calibration import calibrate
from zoo.calibration.calibrated_runs import refit_for_selection
from zoo.calibration.conformal import fit_conformal
from zoo.calibration.ood import ClassGaussians, detection, energy_score, knn_score
from zoo.calibration.selective import certainty, choose_threshold, judge_threshold, risk_coverage
from zoo.calibration.smooth import smooth_calibration_error
from zoo.core.splits import stratified_split
from zoo.errors import InputError
from zoo.outputs import store
from zoo.outputs.outputs import Outputs, Runs

NAMES = ["mine-a", "mine-b"]


@pytest.fixture
def outputs(store_outputs):
    return [store_outputs(name, seed, skill=1 + 0.3 * seed) for seed, name in enumerate(NAMES)]


class TestTrust:
    OPTIONS = ("--score", "margin", "--coverage", "0.7", "--min-accuracy", "0.8", "--alpha", "0.2", "--seed", "3")

    def test_json_equals_the_functions(self, cli, outputs):
        found = {one["model"]: one for one in cli("trust", *NAMES, *self.OPTIONS, "--ensemble", "--json").json["models"]}
        runs = calibrate(outputs).aligned()
        fitted = stratified_split(runs.labels, 0.5, 3, runs["mine-a"].ids)
        runs = refit_for_selection(runs, fitted, 3)
        probabilities = {name: runs[name].probabilities for name in NAMES} | {"(ensemble)": ensembles.average(runs)}
        assert list(found) == list(probabilities)
        for name, p in probabilities.items():
            one, correct, scores = found[name], p.argmax(1) == runs.labels, certainty(p, "margin")
            curve = risk_coverage(scores, correct, 200, 3)
            assert one["accuracy"]["value"] == pytest.approx(correct.mean())
            for measure in ("aurc", "augrc", "excess_aurc"):
                assert one[measure]["value"] == pytest.approx(getattr(curve, measure))
                assert one[measure]["interval"] == pytest.approx(curve.intervals[measure])
            error, interval = smooth_calibration_error(p.max(1).clip(0, 1), correct, 200, 3)
            assert one["smooth_calibration_error"] == {"value": pytest.approx(error), "interval": pytest.approx(interval)}
            for place, aim in (("at_coverage", {"coverage": 0.7}), ("at_accuracy", {"accuracy": 0.8})):
                threshold = choose_threshold(scores[fitted], correct[fitted], **aim)
                judged = judge_threshold(threshold, scores[~fitted], correct[~fitted])
                assert one[f"{place}.coverage"] == pytest.approx(judged.coverage)
                assert one[f"{place}.accuracy"]["interval"] == pytest.approx(judged.accuracy_interval)
            for method in ("lac", "aps", "raps"):
                predictor = fit_conformal(p[fitted], runs.labels[fitted], 0.2, method, seed=3)
                report = predictor.evaluate(p[~fitted], runs.labels[~fitted], 3)
                assert one[f"{method}.coverage"]["value"] == pytest.approx(report.coverage)
                assert one[f"{method}.mean_size"]["value"] == pytest.approx(report.mean_size)
                assert one[f"{method}.mean_size"]["interval"] == pytest.approx(report.mean_size_interval)
                assert one[f"{method}.expected_coverage"] == pytest.approx(report.expected)
                low, high = one[f"{method}.coverage"]["interval"]
                assert low < report.coverage < high

    @pytest.mark.parametrize("conditioning", ["class", "cluster"])
    def test_sets_with_a_threshold_per_class_or_cluster(self, cli, outputs, conditioning):
        words = ("trust", "mine-a", "--uncalibrated", "--set-threshold", conditioning)
        (found,) = cli(*words, "--json").json["models"]
        one = outputs[0]
        p, y, fitted = np.asarray(one.probabilities), one.labels, stratified_split(one.labels, 0.5, 0, one.ids)
        for method in ("lac", "aps", "raps"):
            report = fit_conformal(p[fitted], y[fitted], 0.1, method, conditioning).evaluate(p[~fitted], y[~fitted])
            assert found[f"{method}.coverage"]["value"] == pytest.approx(report.coverage)
            assert found[f"{method}.mean_size"]["value"] == pytest.approx(report.mean_size)
            assert found[f"{method}.expected_coverage"] is None
        assert "valid sets" not in cli(*words).out
        assert "valid sets" in cli(*words[:3]).out

    def test_text_and_files(self, cli, outputs, tmp_path):
        paths = [tmp_path / "trust.csv", tmp_path / "risk.svg"]
        printed = cli("trust", *NAMES, "--uncalibrated", *(word for path in paths for word in ("-o", path)))
        found = cli("trust", *NAMES, "--uncalibrated", "--json").json
        assert found["population"] == "all 400 examples"
        table = pd.read_csv(paths[0]).set_index(["model", "measure"])
        for one in found["models"]:
            accuracy = table.loc[(one["model"], "accuracy")]
            assert accuracy["value"] == pytest.approx(one["accuracy"]["value"])
            low, high = one["accuracy"]["interval"]
            assert f"{100 * accuracy['value']:.1f}% ({100 * low:.1f} to {100 * high:.1f})" in printed.out
            assert f"{one['lac.mean_size']['value']:.2f}" in printed.out
        assert {"aps.coverage", "at_accuracy.threshold", "augrc"} <= {measure for _, measure in table.index}
        assert paths[1].read_text().startswith("<svg")
        assert "fitted on 200 examples" in printed.remarks

    def test_groups(self, cli, outputs, tmp_path):
        path = tmp_path / "groups.csv"
        groups = {row_id: "day" if row % 3 else "night" for row, row_id in enumerate(outputs[0].ids.tolist())}
        path.write_text("id,group,other\n" + "".join(f"{row_id},{group},x\n" for row_id, group in groups.items()))
        words = ("trust", *NAMES, "--uncalibrated", "--groups", path)
        found = cli(*words, "--json").json["groups"]
        expected = diversity.groups(Runs(outputs), groups)
        assert [row["accuracy"] for row in found["groups"]] == pytest.approx(expected.frame["accuracy"].tolist())
        assert {(row["group"], row["model"]) for row in found["models"]} == {(g, n) for g in ("day", "night") for n in NAMES}
        night = found["groups"][1]
        low, high = night["accuracy_low"], night["accuracy_high"]
        assert f"{100 * night['accuracy']:.1f}% ({100 * low:.1f} to {100 * high:.1f})" in cli(*words).out

    def test_coverage_by_group_uses_sets_fitted_on_the_other_half(self, cli, outputs):
        found = cli("trust", *NAMES, "--uncalibrated", "--groups", "class", "--alpha", 0.2, "--json").json["groups"][
            "set_coverage"
        ]
        first, y = outputs[0], outputs[0].labels
        fitted = stratified_split(y, 0.5, 0, first.ids)
        for row in found:
            inside = ~fitted & (np.array(first.classes)[y] == row["group"])
            coverages = []
            for one in outputs:
                p = np.asarray(one.probabilities)
                predictor = fit_conformal(p[fitted], y[fitted], 0.2, row["method"], seed=0)
                sets = np.zeros_like(p, bool)
                sets[~fitted] = predictor.predict_sets(p[~fitted], 0)
                coverages.append(sets[inside, y[inside]].mean())
            assert row["examples"] == inside.sum()
            assert row["coverage"] == pytest.approx(np.mean(coverages))
            assert row["coverage_low"] <= row["coverage"] <= row["coverage_high"]
        assert {row["method"] for row in found} == {"lac", "aps", "raps"}

    def test_coverage_of_sets_in_small_groups(self, cli, outputs, tmp_path):
        """A group of fewer than ten examples has an interval only if all its examples are alike: a proportion's."""
        first = outputs[0]
        judged = first.ids[~stratified_split(first.labels, 0.5, 0, first.ids)].tolist()
        names = dict.fromkeys(first.ids.tolist(), "usual") | {judged[0]: "single"} | dict.fromkeys(judged[1:9], "few")
        pd.DataFrame({"id": names.keys(), "group": names.values()}).to_csv(tmp_path / "groups.csv", index=False)
        words = ("trust", "mine-a", "--uncalibrated", "--groups", tmp_path / "groups.csv")
        rows = {(row["group"], row["method"]): row for row in cli(*words, "--json").json["groups"]["set_coverage"]}
        for (group, _), row in rows.items():
            ends = [row["coverage_low"], row["coverage_high"]]
            if group != "usual" and row["coverage"] in (0, 1):
                assert ends == pytest.approx([end.item() for end in wilson(row["coverage"], row["examples"])])
                assert ends[0] < ends[1]
            else:
                assert (None in ends) == (group == "few")
        assert rows["single", "lac"]["examples"] == 1
        assert "nan" not in cli(*words).out

    def test_groups_by_a_number_that_is_mostly_constant(self, cli, outputs, tmp_path):
        """The most common value is a group by itself; the other values are divided into quartiles."""
        numbers = np.maximum(np.arange(400) - 340, 0)
        pd.DataFrame({"id": outputs[0].ids, "doubt": numbers}).to_csv(tmp_path / "people.csv", index=False)
        found = cli("trust", "mine-a", "--uncalibrated", "--groups", tmp_path / "people.csv", "--json").json["groups"]
        assert {row["group"]: row["examples"] for row in found["groups"]} == {"1: 0 to 0": 341, "2: 1 to 59": 59}

    def test_groups_by_class(self, cli, outputs):
        found = cli("trust", *NAMES, "--uncalibrated", "--groups", "class", "--json").json["groups"]
        names = [outputs[0].classes[k] for k in outputs[0].labels]
        expected = diversity.groups(Runs(outputs), names)
        assert [row["group"] for row in found["groups"]] == expected.frame["group"].tolist()
        assert [row["accuracy"] for row in found["groups"]] == pytest.approx(expected.frame["accuracy"].tolist())
        assert found["worst"] == expected.worst
        assert f"lowest accuracy: {expected.worst}" in cli("trust", *NAMES, "--groups", "class").remarks

    def test_groups_by_any_column(self, cli, outputs, tmp_path):
        rng, ids = np.random.default_rng(0), outputs[0].ids.tolist()
        table = pd.DataFrame({"id": ids, "camera": rng.choice(["a", "b"], 400), "difficulty": rng.random(400).round(6)})
        table.to_csv(tmp_path / "photos.csv", index=False)
        table[["id", "camera"]].to_csv(tmp_path / "cameras.csv", index=False)

        def groups(text):
            found = cli("trust", *NAMES, "--uncalibrated", "--groups", text, "--json").json["groups"]["groups"]
            return {row["group"]: (row["examples"], row["accuracy"]) for row in found}

        expected = diversity.groups(Runs(outputs), table["camera"]).frame
        cameras = dict(zip(expected["group"], zip(expected["examples"], expected["accuracy"], strict=True), strict=True))
        assert groups(f"{tmp_path / 'photos.csv'}:camera") == groups(tmp_path / "cameras.csv") == cameras
        quarters = groups(f"{tmp_path / 'photos.csv'}:difficulty")
        assert [name[:2] for name in quarters] == ["1:", "2:", "3:", "4:"]
        easy = (table["difficulty"].rank(method="first") <= 100).to_numpy()
        accuracy = np.mean([one.correct[easy].mean() for one in outputs])
        assert next(iter(quarters.values())) == (100, pytest.approx(accuracy))

    @pytest.mark.parametrize(
        ("text", "column", "expected"),
        [
            ("id,condition,camera\na,b,c\n", "", {"found": "id, condition, camera"}),
            ("id,condition\na,b\n", ":camera", {"expected": "a column camera", "found": "id, condition"}),
            ("id,group\na,b\na,c\n", "", {"problem": "'a'"}),
            ("name,group\na,b\n", "", {"expected": "a column id"}),
            ("id,group\na,b\n", ":id", {"expected": "beside the ids"}),
            ("id,group\na,b\n", "", {"problem": "no group"}),
            ("id,group\n" + "".join(f"cifar10:test/{n},{n % 2 or ' '}\n" for n in range(400)), "", {"problem": "no group"}),
            ("id,group\n" + "".join(f"cifar10:test/{n},x\n" for n in range(400)), "", {"problem": "", "found": 1}),
            ("id,group\n" + "".join(f"{row},text{row}\n" for row in range(40)), "", {"problem": "40 different values"}),
            ("id,group\n" + "".join(f"{row},{row or 'NA'}\n" for row in range(40)), "", {"hint": "'NA'"}),
            ("id,group\n" + "".join(f"{row},{row or 'inf'}\n" for row in range(40)), "", {"hint": "'inf'"}),
            ("id;group\n1;a\n", "", {"expected": "a column id", "found": "id;group"}),
            ("id,group\n\0\ud800\n", "", {}),
            ("", "", {}),
        ],
    )
    def test_invalid_group_files(self, outputs, invoke, tmp_path, text, column, expected):
        (tmp_path / "groups.csv").write_bytes(text.encode("utf-8", "surrogatepass"))  # one of them is not UTF-8
        where = {} if expected.get("problem") in ("no group", "") else {"where": "groups.csv"}
        with pytest.raises(InputError, check=fields(argument="groups", **where, **expected)):
            invoke("trust", *NAMES, "--groups", f"{tmp_path / 'groups.csv'}{column}")

    @pytest.mark.parametrize("name", ["absent.csv", "absent.csv:camera", "https://a.b/c.csv", "x" * 5000, "a\0b", ""])
    def test_missing_group_files(self, outputs, invoke, name):
        with pytest.raises(InputError, check=fields(argument="groups")):
            invoke("trust", *NAMES, "--groups", name)

    def test_disagreement_of_the_ensemble_members(self, cli, outputs, invoke):
        words = ("trust", *NAMES, "--uncalibrated", "--score", "disagreement")
        found = {one["model"]: one["aurc"]["value"] for one in cli(*words, "--ensemble", "--json").json["models"]}
        runs = Runs(outputs)
        p = {name: runs[name].probabilities for name in NAMES}
        mean = ensembles.average(runs)
        of_ensemble = certainty(mean, "disagreement", p.values()), mean.argmax(1) == runs.labels
        of_model = certainty(p["mine-a"]), outputs[0].correct
        assert found["(ensemble)"] == pytest.approx(risk_coverage(*of_ensemble, resamples=0).aurc)
        assert found["mine-a"] == pytest.approx(risk_coverage(*of_model, resamples=0).aurc)
        with pytest.raises(InputError, check=fields(argument="score")):
            invoke(*words)

    def test_thresholds_are_evaluated_on_held_out_examples(self, cli, store_outputs):
        """For a model that guesses, a threshold for 60% accuracy does not reach it on held-out examples."""
        store_outputs("guess", 0, skill=0)
        (found,) = cli("trust", "guess", "--uncalibrated", "--min-accuracy", "0.6", "--json").json["models"]
        assert found["at_accuracy.accuracy"] is None or found["at_accuracy.accuracy"]["value"] < 0.6

    def test_errors(self, cli, outputs, store_outputs, invoke):
        for option, values in {"--coverage": (0, 1.5), "--min-accuracy": (95, -0.1), "--alpha": (0, 1)}.items():
            for value in (*values, "nan"):
                assert f"{option} must be" in cli("trust", *NAMES, option, value, code=2).err
        store.save(Outputs.from_arrays("bare", logits=np.eye(4), dataset="cifar10:test"))
        with pytest.raises(InputError, check=fields(where="bare", problem="no labels")):
            invoke("trust", "bare")
        with pytest.raises(InputError, check=fields(argument="ensemble", found=1)):
            invoke("trust", "mine-a", "--ensemble")
        store_outputs("hard", 0, kind="predictions")
        with pytest.raises(InputError, check=fields(where="hard")):
            invoke("trust", "hard", "--uncalibrated")
        with pytest.raises(InputError, check=fields(argument="output", expected=".csv")):
            invoke("trust", *NAMES, "-o", "trust.xlsx")


class TestOod:
    WORDS = ("ood", *NAMES, "--in", "known", "--out", "near", "--out", "far")

    @pytest.fixture
    def runs(self, store_outputs):
        found = {}
        for data, skill in (("train", 1.5), ("known", 1.5), ("near", 1.0), ("far", 0.0)):
            for seed, name in enumerate(NAMES):
                labels = np.random.default_rng(len(data)).integers(0, 4, 400)  # as the fixture draws them
                spread = np.random.default_rng(seed + len(data)).normal(size=(400, 6))
                embeddings = spread + 2 * skill * np.eye(6)[labels]
                found[data, name] = store_outputs(name, seed + 7 * len(data), data=data, skill=skill, embeddings=embeddings)
        return found

    def test_json_equals_the_functions(self, cli, runs, tmp_path):
        found = cli(*self.WORDS, "--ensemble", "--train", "train", "--json", "-o", tmp_path / "ood.csv").json
        rows = {(row["out"], row["model"], row["score"]): row for row in found["results"]}
        assert len(pd.read_csv(tmp_path / "ood.csv")) == len(rows) == 2 * (2 * 5 + 3)
        for out in ("near", "far"):
            for name in NAMES:
                inside, outside, train = runs["known", name], runs[out, name], runs["train", name]
                gaussians = ClassGaussians.fit(train.embeddings.array(), train.labels)
                scores = {
                    "confidence": lambda o: certainty(o.probabilities, "confidence"),
                    "entropy": lambda o: certainty(o.probabilities, "entropy"),
                    "energy": lambda o: energy_score(o.logits),
                    "nearest": lambda o, known=train: knn_score(o.embeddings.array(), known.embeddings.array(), 50),
                    "Mahalanobis": lambda o, fit=gaussians: fit.score(o.embeddings.array()),
                }
                for score, of in scores.items():
                    expected, row = detection(of(inside), of(outside)), rows[out, name, score]
                    assert row["auroc"] == pytest.approx(expected.auroc)
                    assert row["fpr95"] == pytest.approx(expected.fpr95)
                    assert (row["aupr_low"], row["aupr_high"]) == pytest.approx(expected.intervals["aupr"])
            assert rows[out, "(ensemble)", "disagreement"]["auroc"] > 0
        assert rows["far", "mine-a", "confidence"]["auroc"] > rows["near", "mine-a", "confidence"]["auroc"] > 0.5

    def test_several_models_have_a_table_per_score(self, cli, runs):
        printed = cli(*self.WORDS, "--out", "far", "--ensemble")
        rows = cli(*self.WORDS, "--ensemble", "--json").json["results"]
        for row in rows:
            assert printed.out.count(f"known against {row['out']}, {row['score']} (95% CI)") == 1
            for measure in ("auroc", "aupr", "fpr95"):
                value, low, high = (100 * row[f"{measure}{end}"] for end in ("", "_low", "_high"))
                assert f"{value:.1f}% ({low:.1f} to {high:.1f})" in printed.out
        assert "not shown" not in printed.err

    def test_one_model_has_one_table(self, cli, runs):
        printed = cli("ood", "mine-a", "--in", "known", "--out", "far", "--train", "train")
        assert printed.out.count("known against far, mine-a (95% CI)") == 1
        assert {"confidence", "Mahalanobis", "FPR@95"} <= set(printed.out.split())
        assert "not shown" not in printed.err

    def test_shifted_logits_have_no_energy(self, cli, runs, store_outputs):
        """Shipped outputs store logits minus their maximum, so their log-sum-exp is not the energy."""
        z = np.asarray(runs["known", "mine-a"].logits)
        shifted = Outputs.from_arrays(
            "mine-a", logits=z - z.max(1, keepdims=True), labels=np.zeros(len(z), int), dataset="low"
        )
        store.save(shifted)
        printed = cli("ood", "mine-a", "--in", "low", "--out", "far", "--json")
        assert [row["score"] for row in printed.json["results"]] == ["confidence", "entropy"]
        assert "no energy for mine-a" in printed.remarks

    def test_examples_in_both_datasets(self, runs, invoke, store_outputs):
        store_outputs("mine-a", 3, data="known[:100]", rows=100)
        shared = dataclasses.replace(runs["known", "mine-a"].select(np.arange(50)), dataset="known[:50]")
        store.save(shared, replace=True)
        with pytest.raises(InputError, check=fields(argument="outside", problem="400 examples")):
            invoke("ood", "mine-a", "--in", "known", "--out", "known")
        with pytest.raises(InputError, check=fields(argument="outside", problem="50 examples")):
            invoke("ood", "mine-a", "--in", "known", "--out", "known[:50]")
        with pytest.raises(InputError, check=fields(argument="train", problem="400 examples")):
            invoke("ood", "mine-a", "--in", "known", "--out", "far", "--train", "known")

    def test_outputs_that_cannot_be_compared(self, runs, invoke, store_outputs):
        store_outputs("votes", 0, data="known", kind="predictions")
        store_outputs("votes", 0, data="far", kind="predictions")
        with pytest.raises(InputError, check=fields(where="votes", found="predictions")):
            invoke("ood", "votes", "--in", "known", "--out", "far")
        store.save(Outputs.from_arrays("mine-a", logits=np.eye(3), dataset="three"))
        with pytest.raises(InputError, check=fields(where="mine-a", problem=["4 classes on known", "3 on three"])):
            invoke("ood", "mine-a", "--in", "known", "--out", "three")
        store_outputs("plain", 0, data="known")
        store_outputs("plain", 0, data="far")
        store_outputs("plain", 0, data="train")
        with pytest.raises(InputError, check=fields(where="plain")):
            invoke("ood", "plain", "--in", "known", "--out", "far", "--train", "train")

    def test_mahalanobis_distance_needs_training_labels(self, cli, runs):
        train = runs["train", "mine-a"]
        bare = dataclasses.replace(train, labels=None, dataset="unlabelled", path=None)
        store.save(bare)
        rows = cli("ood", "mine-a", "--in", "known", "--out", "far", "--train", "unlabelled", "--json").json["results"]
        assert {row["score"] for row in rows} == {"confidence", "entropy", "energy", "nearest"}

    def test_errors(self, runs, invoke):
        for words, argument in ((("--in", "known", "--out"), "outside"), (("--out", "near", "--in"), "inside")):
            for data in ("", "nowhere"):
                with pytest.raises(InputError, check=fields(argument=argument)):
                    invoke("ood", *NAMES, *words, data)
        with pytest.raises(InputError, check=fields(argument="train")):
            invoke("ood", *NAMES, "--in", "known", "--out", "near", "--train", "near")
        with pytest.raises(InputError, check=fields(argument="ensemble", found=1)):
            invoke("ood", "mine-a", "--ensemble", "--in", "known", "--out", "near")
        with pytest.raises(InputError, check=fields(argument="output")):
            invoke(*self.WORDS, "-o", "ood.svg")
