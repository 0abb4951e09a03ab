"""Figures of layers, final layers and training logs of networks trained for two epochs, and all examples of the list."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from raised import fields
from scipy import special
from typer.testing import CliRunner

import probes
from zoo import calibration, training
from zoo.app.figures import FIGURES, Study, find
from zoo.app.figures.layers import initial_model, initial_network
from zoo.app.main import app
from zoo.errors import InputError
from zoo.models import registry, trained
from zoo.runs.runner import run

DATA, FEW, TASK = "digits:test[:48]", "digits:train[:64]", "digits-rotated:test"
NETWORKS = {
    "soft-one": ("resnet8-softmax", {}),
    "soft-two": ("resnet8-softmax", {"seed": 1}),
    "cold": ("resnet8-cosine", {"tau": 0.05}),
    "warm": ("resnet8-cosine", {"tau": 0.5}),
    "auto": ("resnet8-softmax", {"auto_augment": "cifar10", "schedule": "exponential", "decay": 0.985}),
    "both": ("resnet8-sigmoid+dropout", {"holdout": 16, "rho": 0.7, "measure_every": 1}),
}

pytestmark = pytest.mark.filterwarnings("ignore::zoo.errors.ZooWarning")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return one home folder for all tests of this module, with a network of each kind."""
    place = tmp_path_factory.mktemp("networks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_HOME", str(place))
        for name, (recipe, changes) in NETWORKS.items():
            training.train(recipe, data=FEW, epochs=2, save_as=name, batch_size=16, progress=False, **changes)
    return place


@pytest.fixture(autouse=True)
def at_home(zoo_home: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_HOME", str(home))


def study(*names: str, **changes: object) -> Study:
    def outputs(models: list[str], data: str, **options: object) -> object:
        return run(models, data=data.replace(":train", ":train[:96]"), progress=False, workers=0, **options)  # type: ignore[arg-type]

    return Study(list(names), DATA, outputs=outputs, **changes)  # type: ignore[arg-type]


def embeddings(name: str, data: str = DATA) -> tuple[np.ndarray, np.ndarray]:
    outputs = run(name, data=data, progress=False)[name]
    return np.asarray(outputs.require_embeddings()[:], float), outputs.labels


def weights(name: str) -> np.ndarray:
    return registry.load(name, device="cpu").network.head.weight.detach().double().numpy()


def unbiased_cka(x: np.ndarray, y: np.ndarray) -> float:
    """Return CKA computed directly from HSIC_1 (Song et al. 2012)."""
    n = len(x)
    k, m = (np.array(a @ a.T) for a in (x - x.mean(0), y - y.mean(0)))
    for gram in (k, m):
        np.fill_diagonal(gram, 0)

    def hsic(a: np.ndarray, b: np.ndarray) -> float:
        return (np.trace(a @ b) + a.sum() * b.sum() / (n - 1) / (n - 2) - 2 / (n - 2) * (a.sum(0) @ b.sum(0))) / n / (n - 3)

    return hsic(k, m) / np.sqrt(hsic(k, k) * hsic(m, m))


def test_similarity_of_layers_between_objectives() -> None:
    known = study("soft-one", "soft-two", "cold")
    frame = find("loss/2a").of(known).frame
    assert list(dict.fromkeys(frame["second"])) == ["soft-two", "cold", "at initialisation"]
    last = frame[(frame["layer"] == "embedding") & (frame["other layer"] == "embedding")].set_index("second")["cka"]
    for other in ("soft-two", "cold"):
        assert last[other] == pytest.approx(unbiased_cka(embeddings("soft-one")[0], embeddings(other)[0]), abs=1e-3)
    assert last["at initialisation"] < 0.999
    same = find("loss/2b").of(known).frame.set_index(["row", "other", "layer"])["cka"]
    assert same["softmax", "softmax", "embedding"] == pytest.approx(last["soft-two"], abs=1e-6)
    assert same["softmax", "cosine", "embedding"] == pytest.approx(last["cold"], abs=1e-6)


def test_corresponding_layers_share_one_colour_scale() -> None:
    result = find("loss/2b").of(study("soft-one", "cold"))
    drawn = result.chart.to_dict()
    assert drawn["spec"]["encoding"]["color"]["scale"]["domain"] == [0, 1]
    (cells,) = drawn["datasets"].values()
    assert [*dict.fromkeys(cell["layer"] for cell in cells)] == ["stem", "stage1_0", "stage2_0", "stage3_0", "embedding"]
    assert {(cell["row"], cell["other"]) for cell in cells} == {("softmax", "cosine"), ("cosine", "softmax")}


def test_the_control_has_the_initial_weights() -> None:
    """A tiny learning rate leaves a model with its initial weights."""
    training.train("resnet8-softmax", data=FEW, epochs=1, save_as="kept", batch_size=16, progress=False,
                          learning_rate=1e-30, weight_decay=0.0, seed=3)  # fmt: skip
    kept = registry.load("kept", device="cpu")
    found = initial_network(kept)
    for name, weight in kept.network.named_parameters():
        assert torch.allclose(found.get_parameter(name), weight, rtol=0, atol=1e-20), name
    control = initial_model("kept", study("kept"), 32).network
    assert torch.allclose(control.head.weight.cpu(), kept.network.head.weight, rtol=0, atol=1e-20)


def test_sparsity_and_separation_by_layer() -> None:
    known = study("soft-one", "soft-two")
    sparse = find("loss/3").of(known).frame.set_index("column")
    nonzero = [100 * np.mean(embeddings(name)[0] != 0) for name in known.names]
    assert sparse.loc["embedding", "mean"] == pytest.approx(np.mean(nonzero), abs=1e-3)
    layers = find("loss/3").of(known).chart.to_dict()["layer"]
    assert any(layer["mark"]["type"] == "rule" for layer in layers)  # between stages
    apart = find("loss/4").of(known).frame.set_index("column")
    expected = []
    for name in known.names:
        x, y = embeddings(name, "digits:train")
        unit = x / np.linalg.norm(x, axis=1, keepdims=True)
        means = np.stack([unit[y == k].mean(0) for k in range(10)])
        expected.append(1 - (1 - (means**2).sum(1).mean()) / (1 - (means.mean(0) ** 2).sum()))
    assert apart.loc["embedding", "mean"] == pytest.approx(np.mean(expected), abs=1e-4)
    assert apart.loc["embedding", "seeds"] == 2


def test_neural_collapse() -> None:
    frame = find("loss/table-E.2").of(study("soft-one", "cold")).frame.set_index(["row", "column"])["mean"]
    x, y = embeddings("soft-one", "digits:train[:96]")
    means = np.stack([x[y == k].mean(0) for k in range(10)])
    centred = means - means.mean(0)
    within = np.mean([np.cov(x[y == k].T, bias=True) for k in range(10)], axis=0)
    between = centred.T @ centred / 10
    expected = np.trace(within @ np.linalg.pinv(between, rcond=1e-6, hermitian=True)) / 10
    assert frame["softmax", "collapse-variability"] == pytest.approx(expected, rel=1e-2)
    norms = np.linalg.norm(weights("soft-one"), axis=1)
    assert frame["softmax", "collapse-weight-norm-variation"] == pytest.approx(norms.std() / norms.mean(), rel=1e-4)
    assert frame["cosine", "collapse-weight-norm-variation"] == pytest.approx(0, abs=1e-6)


def test_hardness_spectra_and_distances() -> None:
    known = study("soft-one")
    x, y = embeddings("soft-one")
    w = weights("soft-one")
    angles = np.arccos(np.clip(x @ w.T / np.linalg.norm(x, axis=1)[:, None] / np.linalg.norm(w, axis=1), -1, 1))
    scores = angles[np.arange(len(y)), y] / angles.sum(1)
    hardness = find("loss/E.1").of(known)
    density = hardness.frame
    in_legend = f"softmax ({known.runs['soft-one'].accuracy:.1%})"
    assert all(in_legend in json.dumps(one.chart.to_dict()) for one in (hardness, find("loss/E.2").of(known)))
    middle = np.average(density["value"], weights=density["density"])
    assert middle == pytest.approx(scores.mean(), rel=1e-2)
    train, labels = embeddings("soft-one", "digits:train[:96]")
    spectra = find("loss/E.2").of(known).frame.set_index(["matrix", "index"])["value"]
    assert spectra["activations"].to_numpy()[:3] == pytest.approx(np.linalg.svd(train, compute_uv=False)[:3], rel=1e-4)
    assert spectra["weights"].to_numpy()[:3] == pytest.approx(np.linalg.svd(w, compute_uv=False)[:3], rel=1e-4)
    unit = train / np.linalg.norm(train, axis=1, keepdims=True)
    pairs = (1 - unit @ unit.T)[np.triu_indices(len(unit), 1)]
    same = (labels[:, None] == labels)[np.triu_indices(len(unit), 1)]
    distances = find("loss/E.3").of(known, {"bins": "20"}).frame
    for kind, chosen in (("within", same), ("between", ~same)):
        expected = np.histogram(pairs[chosen], 20, (0, 2), density=True)[0]
        assert distances[kind].to_numpy() == pytest.approx(expected, abs=0.15)


def entries(name: str) -> list[dict[str, float]]:
    return [json.loads(line) for line in (trained.path(name).parent / "log.jsonl").read_text().splitlines()]


def test_curves_use_unaugmented_images_up_to_the_selected_epoch() -> None:
    known = study("soft-one", "both")
    last = trained.describe(trained.path("both")).epoch
    log = [entry for entry in entries("both") if entry["epoch"] <= last]
    quantities = {
        "loss/C.1": ("accuracy", "test_accuracy"),  # not holdout_accuracy, which the log has too
        "loss/C.2": ("accuracy", "train_accuracy"),  # not the accuracy on augmented batches
    }
    assert all("holdout_accuracy" in entry and "accuracy" in entry for entry in log)
    for key, (column, field) in quantities.items():
        frame = find(key).of(known).frame
        assert set(frame["model"]) == {"both"}
        assert frame[column].tolist() == pytest.approx([100 * entry[field] for entry in log])
    both = find("loss/C.3").of(known).frame
    assert both["accuracy_training"].tolist() == pytest.approx([100 * entry["train_accuracy"] for entry in log])
    assert both["accuracy_validation"].tolist() == pytest.approx([100 * entry["test_accuracy"] for entry in log])
    separation = find("loss/E.4").of(known).frame.set_index("images")["class_separation"]
    for images, field in (("training", "train_class_separation"), ("validation", "test_class_separation")):
        assert separation[[images]].tolist() == pytest.approx([entry[field] for entry in log])


def test_curves_end_at_the_best_holdout_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    held_out = {1: 0.5, 2: 0.6, 3: 0.9, 4: 0.9, 5: 0.7}
    log = [
        {"epoch": n, "train_accuracy": n / 10, "test_accuracy": n / 20, "holdout_accuracy": x} for n, x in held_out.items()
    ]
    monkeypatch.setattr(trained, "log", lambda folder: log)
    assert find("loss/C.2").of(study("soft-one")).frame["epoch"].tolist() == [1, 2, 3]
    assert find("loss/C.1").of(study("soft-one")).frame["accuracy"].tolist() == pytest.approx([5, 10, 15])


def test_a_log_without_unaugmented_accuracy_is_an_error_with_a_hint() -> None:
    for key in ("loss/C.2", "loss/C.3", "loss/E.4"):
        with pytest.raises(InputError, check=fields(where=key, problem=["plain training images", "--measure-every"])):
            find(key).of(study("soft-one"))


def test_temperatures_are_fitted_on_each_models_own_holdout() -> None:
    """Two seeds hold out different images; the temperature of each is fitted on its own."""
    for seed in (0, 1):
        for objective in ("softmax", "sigmoid"):
            training.train(f"resnet8-{objective}", data="digits", epochs=1, save_as=f"held-{objective}-{seed}", seed=seed,
                           holdout=300, warmup_epochs=0, progress=False)  # fmt: skip
    names = [f"held-{objective}-{seed}" for objective in ("softmax", "sigmoid") for seed in (0, 1)]
    known = Study(names, "digits:test", outputs=lambda models, data: run(models, data=data, progress=False))
    result = find("loss/table-C.3").of(known)
    assert all(spec in result.notes[0] for spec in ("digits:holdout-300", "digits:holdout-300-s1"))
    losses = []
    for seed in (0, 1):
        own = run(f"held-softmax-{seed}", data=f"digits:holdout-300-s{seed}", progress=False)[f"held-softmax-{seed}"]
        temperature = calibration.fit_temperature(own.logits, own.labels).temperature
        outputs = known.runs[f"held-softmax-{seed}"]
        p = special.log_softmax(np.asarray(outputs.logits, float) / temperature, axis=1)
        losses.append(-p[np.arange(len(p)), outputs.labels].mean())
    cells = result.frame.set_index(["row", "column"])
    assert cells.loc[("softmax", "nll-calibrated"), "mean"] == pytest.approx(np.mean(losses), rel=1e-3)


def test_combined_objectives_augmentation_and_long_training() -> None:
    combined = find("loss/table-C.4").of(study("both")).frame.iloc[0]
    log = entries("both")
    assert (combined["row"], combined["column"]) == ("sigmoid", "holdout-dropout-0.7")
    assert combined["mean"] == pytest.approx(100 * max(line["holdout_accuracy"] for line in log))
    assert combined["paper"] == 80.3
    known = study("soft-one", "auto")
    accuracy = {name: 100 * known.runs[name].accuracy for name in known.names}
    augmented = find("loss/table-C.5").of(known).frame.set_index("column")
    assert augmented.loc["top1", "mean"] == accuracy["soft-one"]
    assert augmented.loc["autoaugment-top1", "mean"] == accuracy["auto"]
    assert augmented.loc["autoaugment-top1", "paper"] == 77.7
    separation = find("loss/table-E.3").of(known).frame.set_index("column")
    assert separation.loc["autoaugment-top1", "mean"] == accuracy["auto"]
    assert separation.loc["autoaugment-class-separation", "paper"] == 0.353
    longer = find("loss/table-C.6").of(known).frame.set_index("column")
    assert longer.loc["long-autoaugment-epochs", ["mean", "paper"]].tolist() == [2, 306]
    assert longer.loc["long-autoaugment-top1", "mean"] == accuracy["auto"]


def test_temperatures_of_cosine_softmax() -> None:
    known = study("cold", "warm", "soft-one", transfer=["digits-rotated:test[:60]"])
    frame = find("loss/table-4").of(known).frame.set_index(["row", "column"])
    assert {row for row, _ in frame.index} == {"cosine tau=0.05", "cosine tau=0.5"}
    assert frame.loc[("cosine tau=0.05", "class-separation"), "paper"] == 0.634
    assert frame.loc[("cosine tau=0.5", "top1"), "mean"] == 100 * known.runs["warm"].accuracy
    relearnt = find("demystifying/table-4").of(known, {"examples": "40"}).frame.set_index(["row", "column"])
    assert relearnt.loc[("cosine tau=0.05", "in50k"), "paper"] == 76.4
    assert set(relearnt.index) - set(frame.index) == {(f"cosine tau={tau}", "in50k") for tau in (0.05, 0.5)}
    drawn = find("demystifying/5b").of(known, {"examples": "40"}).frame.set_index(["row", "column"])
    for column in ("in50k", "linear-digits-rotated"):
        assert drawn.loc[("cosine tau=0.5", column), "mean"] == relearnt.loc[("cosine tau=0.5", column), "mean"]
    points = find("loss/5b").of(known)
    assert points.notes[0] == "too few points for a rank correlation"


@pytest.mark.slow
def test_layers_changed_by_fine_tuning() -> None:
    task = "digits-rotated:test[:40]"
    settings = {"steps": "3", "rates": "0.3", "decays": "0"}
    known = study("soft-one", "cold", transfer=[task])
    frame = find("loss/table-2").of(known, settings).frame.set_index("row")
    learn = "digits-rotated:train"
    again = probes.finetune("cold", learn, task, steps=3, learning_rates=[0.3], weight_decays=[0.0], progress=False)
    assert frame.loc["cosine", "mean"] == pytest.approx(100 * again.accuracy)
    changed = find("loss/D.3").of(study("cold", transfer=[task]), settings).frame.set_index("layer")["cka"]
    (tuned,) = again.models
    images = torch.stack([tuned.transform.pixels(image) for image in _images()])
    after = tuned.forward(images)[0].double().numpy()
    assert changed["embedding"] == pytest.approx(unbiased_cka(embeddings("cold")[0], after), abs=1e-3)
    assert changed["embedding"] < 0.999  # it is 1 for an unchanged network


def _images() -> list[object]:
    from zoo import datasets

    images = datasets.load(DATA)
    return [images[row] for row in range(len(images))]


@pytest.mark.slow
def test_every_example_of_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every example after training the networks that the README lists."""
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    for objective in ("softmax", "sigmoid", "squared-error"):
        for seed in range(2):
            training.train(f"resnet8-{objective}", data="digits", seed=seed, snapshots_every=4, progress=False)
    own: dict[str, tuple[str, dict[str, object]]] = {
        "cosine-tau-0.05": ("resnet8-cosine", {"tau": 0.05}),
        "cosine-tau-0.5": ("resnet8-cosine", {"tau": 0.5}),
        "sigmoid-held": ("resnet8-sigmoid", {"holdout": 200, "measure_every": 1}),
        "sigmoid-dropout-held": ("resnet8-sigmoid+dropout", {"holdout": 200, "measure_every": 1}),
        "softmax-auto": ("resnet8-softmax", {"auto_augment": "cifar10"}),
        "softmax-long": ("resnet8-softmax", {"auto_augment": "cifar10", "schedule": "exponential", "decay": 0.985}),
    }
    for name, (recipe, changes) in own.items():
        training.train(recipe, data="digits", epochs=4, save_as=name, progress=False, **changes)  # type: ignore[arg-type]
    for one in FIGURES.values():
        if one.example is not None:
            chart, table = tmp_path / "figure.svg", tmp_path / "figure.csv"
            arguments = [*shlex.split(one.example), "-o", str(chart), "-o", str(table)]
            found = CliRunner().invoke(app, ["figure", one.key, *arguments])
            assert found.exit_code == 0, f"{one.key}: {found.output} {found.exception!r}"
            assert chart.read_text().startswith("<svg")
            assert len(table.read_text().splitlines()) > 1
            assert max(map(len, found.stdout.splitlines())) <= 80
