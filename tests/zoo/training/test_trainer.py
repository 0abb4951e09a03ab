"""Named models: trained once, described, found by name, and never mistaken for another."""

import multiprocessing
import threading

import numpy as np
import pytest
import torch
from PIL import Image

import zoo
from zoo.core import files
from zoo.errors import InputError, MissingWeights, ZooError
from zoo.models import trained
from zoo.training import default_jobs, loop, train, train_each, trainer


def quick(name: str = "resnet8-cosine", **arguments) -> trainer.Trained:
    return train(name, **{"data": "digits[:100]", "epochs": 1, "save_as": "quick"} | arguments)


def test_a_trained_model_is_found_by_name_with_all_that_made_it(zoo_home):
    made = quick(seed=3, tau=0.2)
    assert made.name == "quick"
    assert made.name in zoo.list("qui*")
    card = zoo.card(made.name)
    assert card.training.hyperparameters.items() >= {"tau": 0.2, "epochs": 1, "batch_size": 32}.items()
    assert (card.seed, card.dataset, card.objective, card.labels) == (3, "digits", "cosine", "digits")
    command = "zoo train resnet8-cosine-s3 --data 'digits:train[:100]' --set tau=0.2 --set epochs=1 --as quick"
    assert made.record.command == command
    assert command in card.body
    assert set(made.results) == {
        f"{part}_{measure}" for part in ("train", "test") for measure in ("accuracy", "nll", "class_separation")
    }
    assert made.record == trained.describe(zoo_home / "weights" / made.name / "model.safetensors")
    assert (made.record.data, made.record.steps) == ("digits:train[:100]", 3)
    assert made.record.fingerprint == zoo.datasets.load("digits:train[:100]").fingerprint
    assert not (zoo_home / "cards").exists()
    assert sorted(path.name for path in made.folder.iterdir()) == ["log.jsonl", "model.safetensors"]
    assert len(made.log) == 1

    model = zoo.load(made.name)
    test = zoo.datasets.load("digits:test")
    logits = model.predict(list(test))
    assert logits.shape == (len(test), 10)
    assert (logits.argmax(1).numpy() == test.labels).mean() == pytest.approx(made.results["test_accuracy"], abs=1e-6)
    assert logits.abs().max() <= 1 / 0.2 + model.head.bias.abs().max()  # its own logits: a cosine over tau, plus a bias


def test_a_finished_model_is_left_alone(zoo_home):
    first = quick()
    weights = zoo_home / "weights" / first.name / "model.safetensors"
    before = weights.stat().st_mtime_ns
    second = quick()
    assert (first.fresh, second.fresh) == (True, False)
    assert weights.stat().st_mtime_ns == before
    assert second.card == first.card
    assert quick(restart=True).fresh
    assert weights.stat().st_mtime_ns > before


def test_another_recipe_does_not_take_a_finished_models_name():
    quick()
    with pytest.raises(InputError, match=r"another recipe \(hyperparameters.tau: 0.15 -> 0.3\).*--as"):
        quick(tau=0.3)
    with pytest.raises(InputError, match="images of digits:train"):
        quick(data="digits[:120]")
    other = quick(tau=0.3, save_as="warmer")
    assert zoo.load("warmer").head.objective.hyperparameters == {"tau": 0.3}
    assert other.record.command.endswith("--as warmer")


def test_a_recipes_name_is_trained_by_that_recipe_only(zoo_home):
    for changes in ({"tau": 0.3}, {"epochs": 1}, {"data": "digits[:100]"}, {"data": "digits:test"}):
        with pytest.raises(InputError, match=r"resnet8-cosine\.digits: is .*--as NAME"):
            train("resnet8-cosine", **changes)
    assert not (zoo_home / "weights").exists()


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    one, two = quick(home=tmp_path / "a"), quick(home=tmp_path / "b")
    assert (one.folder / "model.safetensors").read_bytes() == (two.folder / "model.safetensors").read_bytes()
    other = quick(home=tmp_path / "c", seed=1)
    weights = [trained.read(made.folder / "model.safetensors")[1]["head.weight"] for made in (one, other)]
    assert not np.array_equal(*weights)


def test_killed_between_training_and_the_last_file(zoo_home, monkeypatch):
    """The model is not there yet: the next call writes it, to the same bytes, without training again."""
    expected = (quick(save_as="again", home=zoo_home / "whole").folder / "model.safetensors").read_bytes()
    original = files.write

    def dying(path, data):
        if path.name == "model.safetensors":
            raise KeyboardInterrupt
        original(path, data)

    monkeypatch.setattr(files, "write", dying)
    with pytest.raises(KeyboardInterrupt):
        quick(save_as="again")
    monkeypatch.setattr(files, "write", original)
    assert zoo.list("again") == []
    monkeypatch.setattr(loop, "shift_and_flip", None)  # no step may be taken
    assert quick(save_as="again").fresh
    assert (zoo_home / "weights" / "again" / "model.safetensors").read_bytes() == expected


def test_killed_before_the_checkpoint_of_a_finished_model_is_removed(zoo_home):
    made = quick()
    left = made.folder / "checkpoint.safetensors"
    left.write_bytes(b"left behind")
    with files.lock(made.folder / "lock"):  # somebody trains it anew
        assert not quick().fresh
        assert left.exists()
    assert not quick().fresh
    assert sorted(path.name for path in made.folder.iterdir()) == ["log.jsonl", "model.safetensors"]


def test_killed_while_a_model_is_replaced(zoo_home, monkeypatch):
    """Until the last moment of `restart` the old model is whole, description and weights, and found by every call."""
    old = quick()
    before = trained.path("quick").read_bytes()
    original = files.write

    def dying(path, data):
        if path.name == "model.safetensors":
            raise KeyboardInterrupt
        original(path, data)

    monkeypatch.setattr(files, "write", dying)
    with pytest.raises(KeyboardInterrupt):
        quick(tau=0.4, restart=True)
    monkeypatch.setattr(files, "write", original)
    assert trained.path("quick").read_bytes() == before
    assert zoo.load("quick").card == zoo.card("quick") == old.card
    assert quick().record == old.record
    new = quick(tau=0.4, restart=True)
    assert (new.fresh, zoo.load("quick").head.objective.hyperparameters) == (True, {"tau": 0.4})


def test_two_at_once_make_one(zoo_home, capsys):
    made: list[trainer.Trained] = []
    threads = [threading.Thread(target=lambda: made.append(quick(epochs=2))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.fresh for one in made) == [False, True]
    assert "another process is training quick" in capsys.readouterr().err


def test_images_of_mixed_size_and_classes_of_ones_own(tmp_path):
    rng = np.random.default_rng(0)
    for number in range(40):
        for kind, brightness in (("dark", 0), ("light", 128)):
            folder = tmp_path / "lamps" / kind
            folder.mkdir(parents=True, exist_ok=True)
            size = tuple(rng.integers(6, 60, 2))
            Image.fromarray(rng.integers(brightness, brightness + 128, (*size, 3), np.uint8)).save(folder / f"{number}.png")
    with pytest.raises(InputError, match=r"resnet8-softmax\.lamps: is .*--as NAME"):
        train("resnet8-softmax", data=f"folder:{tmp_path / 'lamps'}")
    made = train("resnet8-softmax", data=f"folder:{tmp_path / 'lamps'}", epochs=3, batch_size=20, save_as="lamps")
    model = zoo.load("lamps")
    assert model.card == zoo.card("lamps")
    assert model.classes == ("dark", "light")
    assert made.results["train_accuracy"] == 1.0
    black = Image.new("RGB", (30, 20))
    assert model.classes[int(model.predict([black])[0].argmax())] == "dark"


def test_data_with_one_class_only(tmp_path):
    for number in range(4):
        (tmp_path / "one" / "cat").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "one" / "cat" / f"{number}.png")
    with pytest.raises(InputError, match="at least two classes, found only 'cat'"):
        train("resnet8-softmax", data=f"folder:{tmp_path / 'one'}", batch_size=2, save_as="one")


def test_a_data_set_that_is_not_here():
    with pytest.raises(ZooError, match="cifar10"):
        train("resnet8-softmax", data="cifar10")


@pytest.mark.slow
def test_loading_builds_once_and_says_so(zoo_home, capsys, monkeypatch):
    model = zoo.load("resnet8-cosine")
    assert "zoo: building resnet8-cosine.digits once" in capsys.readouterr().err
    assert model.name == "resnet8-cosine.digits"
    test = zoo.datasets.load("digits:test")
    assert (model.predict(list(test)).argmax(1).numpy() == test.labels).mean() >= 0.93
    monkeypatch.setattr(trainer, "train", None)
    again = zoo.load("resnet8-cosine")
    assert capsys.readouterr().err == ""
    assert torch.equal(again.head.weight, model.head.weight)


def test_loading_can_be_told_not_to_build(monkeypatch):
    monkeypatch.setenv("ZOO_AUTOTRAIN", "0")
    with pytest.raises(MissingWeights, match=r"zoo train resnet8-cosine\.digits"):
        zoo.load("resnet8-cosine")


@pytest.mark.slow
@pytest.mark.parametrize("objective", zoo.objectives.list())
def test_every_objective_learns_the_digits(objective):
    made = train(f"resnet8-{objective}", data="digits")
    assert made.results["test_accuracy"] >= 0.93


def test_the_card_survives_its_file(zoo_home):
    made = quick("resnet8-sigmoid+dropout", rho=0.9)
    assert zoo.card(made.name) == trained.read(trained.path(made.name))[0].card == made.card
    assert made.card.link == "sigmoid"
    assert zoo.load(made.name).head.objective.name == "sigmoid+dropout"


def test_several_at_once_are_what_one_after_the_other_are(zoo_home, tmp_path):
    calls = [{"name": f"resnet8-{o}", "data": "digits[:64]", "epochs": 1, "save_as": o[:3]} for o in ("cosine", "softmax")]
    together = {made.name: made for made in train_each(calls, jobs=2)}
    assert sorted(together) == ["cos", "sof"]
    assert all(made.fresh for made in together.values())
    apart = train("resnet8-cosine", data="digits[:64]", epochs=1, save_as="cos", home=tmp_path)
    assert apart.results["train_nll"] == pytest.approx(together["cos"].results["train_nll"], rel=1e-3)
    assert not any(made.fresh for made in train_each(calls, jobs=1))


def test_an_error_in_one_of_several_reaches_the_caller(zoo_home):
    calls = [{"name": "resnet8-cosine", "data": "digits[:64]", "save_as": "x", "tau": tau} for tau in (-1.0, -2.0)]
    with pytest.raises(InputError, match="tau"):
        list(train_each(calls, jobs=2))


def test_a_killed_process_is_an_error_and_not_a_wait(zoo_home):
    calls = [{"name": f"resnet8-{name}", "epochs": 500, "save_as": name[:3]} for name in ("cosine", "softmax")]
    killer = threading.Timer(3, lambda: [process.kill() for process in multiprocessing.active_children()])
    killer.start()
    with pytest.raises(ZooError, match="process was killed"):
        list(train_each(calls, jobs=2))


def test_how_many_at_once(monkeypatch):
    assert default_jobs(1) == 1
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    assert default_jobs(8) == 1


@pytest.mark.parametrize("text", ["[1]\n", "{\n", "\x00", "[" * 100_000, '{"loss": NaN}\n'], ids=range(5))
def test_a_log_that_is_none_is_named(zoo_home, text):
    folder = zoo_home / "weights" / "small"
    folder.mkdir(parents=True)
    (folder / trained.LOG).write_text(text)
    with pytest.raises(ZooError, match=r"log\.jsonl, line 1: "):
        trained.log(folder)
