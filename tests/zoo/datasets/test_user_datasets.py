"""User-defined datasets: predictions on a dataset without images are imported, compared, described and removed."""

import numpy as np
import pandas as pd
import pytest
from raised import fields

import zoo
from diversity import category, compare, pair_frame
from ensembles import best_within
from zoo.datasets import user_datasets
from zoo.errors import CorruptFile, InputError, UnknownName, ZooWarning

RNG = np.random.default_rng(3)
N = 60
CLASSES = ["plane", "ship", "truck"]
Y = RNG.integers(0, 3, N)
MODELS = {name: RNG.normal(size=(N, 3)) + 2 * np.eye(3)[Y] for name in ("resnet18", "resnet50", "vit")}


@pytest.fixture
def predictions(tmp_path):
    """Return a folder as a user's script may write it: an .npy file per model, labels and classes."""
    folder = tmp_path / "preds"
    folder.mkdir()
    for name, logits in MODELS.items():
        np.save(folder / f"{name}.npy", logits)
    np.save(folder / "labels.npy", Y)
    (folder / "classes.txt").write_text("\n".join(CLASSES))
    return folder


def store(runs):
    return zoo.Runs(zoo.store.save(outputs) for outputs in runs.values())


def test_imported_outputs_define_a_dataset_without_images(predictions):
    store(zoo.import_outputs(predictions, kind="logits", data="cifar10.1-v6"))
    found = zoo.store.open_runs(data="cifar10.1-v6")
    assert found.names == sorted(MODELS)
    assert found["vit"].accuracy == np.mean(MODELS["vit"].argmax(1) == Y)
    same = MODELS["vit"].argmax(1) == MODELS["resnet18"].argmax(1)
    assert compare(found["vit"], found["resnet18"]).agreement == pytest.approx(np.mean(same))
    dataset = zoo.datasets.load("cifar10.1-v6")
    assert (list(dataset.ids), dataset.classes) == ([str(i) for i in range(N)], tuple(CLASSES))
    assert np.array_equal(dataset.labels, Y)
    with pytest.raises(InputError, check=fields(where="cifar10.1-v6", problem="no images")):
        dataset[0]
    with pytest.raises(UnknownName, check=fields(kind="dataset", name="cifar10.1-v7", hint="'cifar10.1-v6'")):
        zoo.datasets.load("cifar10.1-v7")


def test_later_outputs_need_no_labels_and_are_checked_against_the_dataset(predictions, tmp_path):
    store(zoo.import_outputs(predictions, kind="logits", data="mine"))
    bare = {"logits": MODELS["vit"]}
    later = zoo.import_outputs(bare, name="later", data="mine")["later"]
    assert (later.accuracy, later.classes) == (np.mean(MODELS["vit"].argmax(1) == Y), tuple(CLASSES))
    order = RNG.permutation(N)
    table = pd.DataFrame({"id": order.astype(str), "pred": np.array(CLASSES)[MODELS["vit"].argmax(1)][order]})
    assert zoo.import_outputs(table, name="words", data="mine")["words"].accuracy == later.accuracy
    with pytest.warns(ZooWarning, match=r"part: 10 .*mine"):
        zoo.import_outputs(table[:50], name="part", data="mine")
    with pytest.raises(InputError, check=fields(where="short", problem=["50", "60", "mine"])):
        zoo.import_outputs({"logits": MODELS["vit"][:50]}, name="short", data="mine")
    with pytest.raises(InputError, check=fields(where="other", problem=["60", "mine", "'0'"])):
        zoo.import_outputs(bare | {"labels": (Y + 1) % 3}, name="other", data="mine")
    with pytest.raises(InputError, check=fields(where="foreign", problem=["'a'", "mine", "'0'"])):
        zoo.import_outputs({"pred": [0], "ids": ["a"]}, name="foreign", data="mine")
    with pytest.warns(ZooWarning, match=r"two: .*2 .*3 .*mine"):
        assert zoo.import_outputs({"logits": MODELS["vit"][:, :2]}, name="two", data="mine")["two"].labels is None


def test_datasets_are_listed_and_forgotten(predictions):
    for name in ("one", "two:val", "One"):
        store(zoo.import_outputs(predictions, kind="logits", data=name))
    assert user_datasets.specs() == ["One", "one", "two:val"]
    assert user_datasets.forget("one")
    assert not user_datasets.forget("one")
    assert user_datasets.specs() == ["One", "two:val"]


def test_a_changed_byte_is_noticed(predictions, zoo_home):
    store(zoo.import_outputs(predictions, kind="logits", data="mine"))
    (path,) = (zoo_home / "datasets").glob("*.safetensors")
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptFile, check=fields(where=path.name, problem="checksum", hint="import")):
        zoo.datasets.load("mine")


class TestMetadata:
    def table(self, tmp_path, **changes):
        rows = {
            "Model": ["resnet18", "resnet50", "vit"],
            "Family": ["resnet", "resnet", "vit"],
            "dataset": ["in1k", "in1k", "in21k"],
            "framework": ["supervised"] * 3,
            "objective": ["softmax"] * 3,
            "seed": [0, 0, 1],
            "params": ["11.7M", "25.6M", 86_000_000],
            "licence": ["apache-2.0", "apache-2.0", None],
        }
        pd.DataFrame(rows | changes).to_csv(tmp_path / "models.csv", index=False)
        return tmp_path / "models.csv"

    def test_categories_and_budgets_of_imported_models(self, predictions, tmp_path):
        runs = store(zoo.import_outputs(predictions, kind="logits", data="mine", meta=self.table(tmp_path)))
        cards = {name: outputs.card for name, outputs in runs.items()}
        assert category(cards["resnet18"], cards["resnet50"]) == "hparam"
        assert category(cards["vit"], cards["resnet50"]) == "dataset"
        assert (cards["vit"].seed, cards["vit"].license, cards["resnet18"].license) == (1, "unknown", "apache-2.0")
        assert set(pair_frame(runs)["category"]) == {"hparam", "dataset"}
        chosen = best_within(runs, budget=40e6, cost="params")
        assert set(chosen.members) <= {"resnet18", "resnet50"}

    @pytest.mark.parametrize(
        ("changes", "facts"),  # parts of the message, in order
        [
            ({"framework": ["supervised", "magic", "supervised"]}, ["resnet50", "framework", "'magic'"]),
            ({"params": ["big"] * 3}, ["resnet18", "params", "'big'"]),
            ({"Model": ["vit"] * 3}, ["models.csv", "'vit'"]),
            ({"seed": ["a"] * 3}, ["resnet18", "seed", "'a'"]),
        ],
    )
    def test_invalid_tables_are_refused(self, predictions, tmp_path, changes, facts):
        with pytest.raises(InputError, match=".*".join(facts)):
            zoo.import_outputs(predictions, kind="logits", meta=self.table(tmp_path, **changes))

    def test_models_without_a_row_are_named(self, predictions, tmp_path):
        table = self.table(tmp_path, Model=["resnet18", "resnet50", "vit-b"])
        with pytest.warns(ZooWarning, match=r"models.csv: .*1 of 3 .*vit\b.*vit-b"):
            runs = zoo.import_outputs(predictions, kind="logits", meta=table)
        assert runs["vit"].card is None
