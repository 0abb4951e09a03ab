"""Training by name: a model is trained once, found by name, and never mistaken for another."""

import dataclasses
import multiprocessing
import re
import threading

import numpy as np
import pytest
import torch
from PIL import Image
from raised import fields

import zoo
from zoo.cards.card import Card, EnsembleMember, Training, write
from zoo.core import files, progress
from zoo.errors import CorruptFile, InputError, MissingWeights, ZooError, ZooWarning
from zoo.models import trained
from zoo.training import default_jobs, loop, plan, train, train_each, trainer
from zoo.training.batches import order, split_rows


def quick(name: str = "resnet8-cosine", **arguments) -> trainer.Trained:
    return train(name, **{"data": "digits[:100]", "epochs": 1, "save_as": "quick"} | arguments)


def test_a_trained_model_is_found_by_name_with_its_record_and_card(zoo_home):
    made = quick(seed=3, tau=0.2)
    assert made.name == "quick"
    assert made.name in zoo.list("qui*")
    card = zoo.card(made.name)
    assert card.training.hyperparameters.items() >= {"tau": 0.2, "epochs": 1, "batch_size": 32}.items()
    assert (card.seed, card.dataset, card.objective, card.labels) == (3, "digits", "cosine", "digits")
    command = "zoo train resnet8-cosine-s3 --data 'digits:train[:100]' --set tau=0.2 --set epochs=1 --name quick"
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
    assert logits.abs().max() <= 1 / 0.2 + model.head.bias.abs().max()  # the logits are cosines over tau, plus a bias


def test_a_finished_model_is_not_trained_again_without_restart(zoo_home):
    first = quick()
    weights = zoo_home / "weights" / first.name / "model.safetensors"
    before = weights.stat().st_mtime_ns
    second = quick()
    assert (first.fresh, second.fresh) == (True, False)
    assert weights.stat().st_mtime_ns == before
    assert second.card == first.card
    assert quick(restart=True).fresh
    assert weights.stat().st_mtime_ns > before


def test_another_recipe_is_refused_the_name_of_a_finished_model():
    quick()
    with pytest.raises(InputError, check=fields(where="quick", problem="hyperparameters.tau: 0.15 -> 0.3", hint="save_as")):
        quick(tau=0.3)
    with pytest.raises(InputError, check=fields(where="quick", problem="digits:train")):
        quick(data="digits[:120]")
    other = quick(tau=0.3, save_as="warmer")
    assert zoo.load("warmer").head.objective.hyperparameters == {"tau": 0.3}
    assert other.record.command.endswith("--name warmer")


@pytest.mark.parametrize("changes", [{"tau": 0.3}, {"epochs": 1}, {"data": "digits[:100]"}, {"data": "digits:test"}])
def test_a_recipe_with_changes_needs_another_name(zoo_home, changes):
    with pytest.raises(InputError, check=fields(where="resnet8-cosine.digits", hint="{save_as=NAME}")):
        train("resnet8-cosine", **changes)
    assert not (zoo_home / "weights").exists()


def test_the_precision_does_not_change_the_name(zoo_home):
    name = "resnet8-softmax.digits"
    made = train(name, precision="bfloat16", progress=False)
    assert made.name == name
    assert made.record.command == f"zoo train {name} --set precision=bfloat16"
    assert made.card.hyperparameters == zoo.card(name).hyperparameters | {"precision": "bfloat16"}
    assert not train(name).fresh
    assert zoo.load(name).predict(list(zoo.datasets.load("digits:test[:9]"))).shape == (9, 10)


def quick_initial(name: str = "quick", seed: int = 0, **changes):
    """Return the untrained network and the plan of a model of this name."""
    planned = plan("resnet8-cosine", data="digits[:100]", seed=seed, save_as=name, **changes)
    return trainer.initial_network(planned, zoo.datasets.load(planned.data)), planned


def test_initial_weights_and_batch_order_derive_from_name_and_seed():
    (first, planned), (again, replanned) = quick_initial(), quick_initial()
    for key, value in first.state_dict().items():
        assert value.equal(again.state_dict()[key])
    assert np.array_equal(order(100, planned.recipe, 0), order(100, replanned.recipe, 0))
    for other, other_plan in (quick_initial("other"), quick_initial(seed=1)):
        assert not other.head.weight.equal(first.head.weight)
        assert not any(p.equal(q) for p, q in zip(other.parameters(), first.parameters(), strict=True) if p.ndim > 1)
        assert not np.array_equal(order(100, other_plan.recipe, 0), order(100, planned.recipe, 0))


def test_names_give_independent_initial_weights():
    """Not merely different: the weights of two names are uncorrelated."""
    weights = [torch.cat([p.flatten() for p in quick_initial(name)[0].parameters() if p.ndim > 1]) for name in ("a", "b")]
    assert abs(torch.corrcoef(torch.stack(weights))[0, 1]) < 0.02


def test_the_holdout_depends_on_the_seed_only():
    planned = [quick_initial(name, seed, holdout=30)[1] for name, seed in (("a", 0), ("b", 0), ("a", 1))]
    first, other_name, other_seed = (split_rows(100, one.recipe)[1] for one in planned)
    assert np.array_equal(first, other_name)
    assert not np.array_equal(first, other_seed)


def test_recipes_of_different_objectives_start_from_independent_weights_at_equal_seeds():
    plans = [plan(f"resnet8-{objective}", data="digits") for objective in ("softmax", "label-smoothing")]
    assert plans[0].recipe.seed == plans[1].recipe.seed == 0
    first, second = (trainer.initial_network(one, zoo.datasets.load(one.data)) for one in plans)
    assert not first.head.weight.equal(second.head.weight)


def test_a_network_trained_before_names_mattered_still_loads_and_counts_as_finished(zoo_home):
    made = quick()
    path = trained.path(made.name)
    record, stored, _ = trained.read(path)
    tensors = {name: np.array(value) for name, value in stored.items()}  # copies, because the file is replaced below
    assert record.card.training.initialisation == "name and seed"
    training = dataclasses.replace(record.card.training, initialisation=None)
    older = dataclasses.replace(record, card=dataclasses.replace(record.card, training=training))
    path.write_bytes(trained.encode(older, tensors))
    before = path.read_bytes()
    assert b"initialisation" not in before
    assert not quick().fresh
    assert path.read_bytes() == before
    model = zoo.load(made.name)
    assert model.card.training.initialisation is None
    assert torch.equal(model.head.weight, torch.from_numpy(tensors["head.weight"]))
    with pytest.raises(InputError, check=fields(problem="hyperparameters.tau")):
        quick(tau=0.3)


@pytest.mark.parametrize("initialisation", [None, "name and seed"])
def test_restart_replaces_a_finished_model_whatever_its_initialisation(zoo_home, initialisation):
    made = quick()
    path = trained.path(made.name)
    fresh = path.read_bytes()
    record, stored, _ = trained.read(path)
    training = dataclasses.replace(record.card.training, initialisation=initialisation)
    other = {name: np.asarray(value + 1) for name, value in stored.items()}
    files.write(
        path, trained.encode(dataclasses.replace(record, card=dataclasses.replace(record.card, training=training)), other)
    )
    assert path.read_bytes() != fresh
    assert not quick().fresh
    assert quick(restart=True).fresh
    assert path.read_bytes() == fresh  # with the initialisation of today


def test_a_checkpoint_without_the_name_in_its_recipe_is_not_continued(zoo_home, monkeypatch):
    """Initial weights and batch order derived from the seed alone: to continue would mix two orders."""
    planned = plan("resnet8-cosine", data="digits[:100]", epochs=2, save_as="quick")
    older = dataclasses.replace(planned, recipe=planned.recipe.change(name=""))

    def stop(*arguments, **options):
        raise KeyboardInterrupt

    original = trainer.Monitor.__call__
    monkeypatch.setattr(trainer.Monitor, "__call__", stop)
    with pytest.raises(KeyboardInterrupt):
        trainer.train_plan(older, zoo_home, progress=False, checkpoint_every=0)
    monkeypatch.setattr(trainer.Monitor, "__call__", original)
    with pytest.raises(InputError, check=fields(where="checkpoint.safetensors", problem="recipe.name", hint="restart")):
        quick(epochs=2)
    assert quick(epochs=2, restart=True).fresh


def test_a_damaged_finished_model_is_named_and_not_trained_over(zoo_home):
    made = quick()
    path = trained.path(made.name)
    path.write_bytes(b"\x00" * 50)
    with pytest.raises(CorruptFile, check=fields(where=str(path))):
        quick()
    assert path.read_bytes() == b"\x00" * 50
    assert quick(restart=True).fresh


def test_the_same_name_and_seed_give_the_same_bytes(tmp_path):
    one, two = quick(home=tmp_path / "a"), quick(home=tmp_path / "b")
    assert (one.folder / "model.safetensors").read_bytes() == (two.folder / "model.safetensors").read_bytes()
    other = quick(home=tmp_path / "c", seed=1)
    weights = [trained.read(made.folder / "model.safetensors")[1]["head.weight"] for made in (one, other)]
    assert not np.array_equal(*weights)


def test_a_process_killed_before_the_model_is_stored_loses_no_training(zoo_home, monkeypatch):
    """The next call writes the model, with the same bytes, without taking a step."""
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


def test_the_checkpoint_of_a_finished_model_is_removed_unless_it_is_being_restarted(zoo_home):
    made = quick()
    checkpoint = made.folder / "checkpoint.safetensors"
    checkpoint.write_bytes(b"left by a killed process")
    with files.lock(made.folder / "lock"):  # as a process that restarts the training holds it
        assert not quick().fresh
        assert checkpoint.exists()
    assert not quick().fresh
    assert sorted(path.name for path in made.folder.iterdir()) == ["log.jsonl", "model.safetensors"]


def test_a_process_killed_during_restart_leaves_the_old_model_intact(zoo_home, monkeypatch):
    """Until the new model is complete, every call finds the old card and weights."""
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


def test_two_threads_train_one_model_once(zoo_home, capsys):
    made: list[trainer.Trained] = []
    threads = [threading.Thread(target=lambda: made.append(quick(epochs=2))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.fresh for one in made) == [False, True]
    assert "quick" in capsys.readouterr().err


def test_a_folder_of_images_of_mixed_size_is_trained_on_with_its_classes(tmp_path):
    rng = np.random.default_rng(0)
    for number in range(40):
        for kind, brightness in (("dark", 0), ("light", 128)):
            folder = tmp_path / "lamps" / kind
            folder.mkdir(parents=True, exist_ok=True)
            size = tuple(rng.integers(6, 60, 2))
            Image.fromarray(rng.integers(brightness, brightness + 128, (*size, 3), np.uint8)).save(folder / f"{number}.png")
    with pytest.raises(InputError, check=fields(where="resnet8-softmax.lamps", hint="{save_as=NAME}")):
        train("resnet8-softmax", data=f"folder:{tmp_path / 'lamps'}")
    made = train("resnet8-softmax", data=f"folder:{tmp_path / 'lamps'}", epochs=3, batch_size=20, save_as="lamps")
    model = zoo.load("lamps")
    assert model.card == zoo.card("lamps")
    assert model.classes == ("dark", "light")
    assert made.results["train_accuracy"] == 1.0
    black = Image.new("RGB", (30, 20))
    assert model.classes[int(model.predict([black])[0].argmax())] == "dark"


def test_data_with_one_class_is_refused(tmp_path):
    for number in range(4):
        (tmp_path / "one" / "cat").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "one" / "cat" / f"{number}.png")
    with pytest.raises(InputError, check=fields(where="one", found=["cat"])):
        train("resnet8-softmax", data=f"folder:{tmp_path / 'one'}", batch_size=2, save_as="one")


def test_an_unavailable_dataset_is_an_error():
    with pytest.raises(ZooError, match="cifar10"):
        train("resnet8-softmax", data="cifar10")


@pytest.mark.slow
def test_loading_trains_a_missing_model_once_and_says_so(zoo_home, capsys, monkeypatch):
    model = zoo.load("resnet8-cosine")
    assert "resnet8-cosine.digits" in capsys.readouterr().err
    assert model.name == "resnet8-cosine.digits"
    test = zoo.datasets.load("digits:test")
    assert (model.predict(list(test)).argmax(1).numpy() == test.labels).mean() >= 0.93
    monkeypatch.setattr(trainer, "train", None)
    again = zoo.load("resnet8-cosine")
    assert capsys.readouterr().err == ""
    assert torch.equal(again.head.weight, model.head.weight)


def test_building_a_missing_model_prints_lines_with_the_time_left_where_there_is_no_terminal(zoo_home, capsys, monkeypatch):
    """With a line after every step instead of every ten seconds, and a short recipe in place of the default one."""
    short = plan("resnet8-cosine", data="digits[:100]", epochs=2, save_as="quick")
    monkeypatch.setattr(trainer, "plan", lambda name: short)
    monkeypatch.setattr(progress, "LINE_INTERVAL", 0.0)
    trainer.build("resnet8-cosine")
    first, *printed = capsys.readouterr().err.splitlines()
    assert "quick" in first
    assert "2 epochs" in first
    lines, evaluation = printed[:6], printed[6:]
    assert [re.search(r"(\d+)%, epoch (\d)", line).groups() for line in lines] == [
        ("17", "1"), ("33", "1"), ("50", "1"), ("67", "2"), ("83", "2"), ("100", "2")
    ]  # fmt: skip
    assert all(re.fullmatch(r"quick: .* loss \d\.\d+ .* \d:\d\d:\d\d left", line) for line in lines)
    assert lines[-1].endswith("0:00:00 left")
    assert len(evaluation) == 1 + 3  # batches of 256 of the 100 training and the 602 test images
    assert all(re.fullmatch(r"quick, evaluation: \d+%, .* \d:\d\d:\d\d left", line) for line in evaluation)


def test_loading_does_not_train_if_autotrain_is_off(monkeypatch):
    monkeypatch.setenv("ZOO_AUTOTRAIN", "0")
    with pytest.raises(MissingWeights, match=r"resnet8-cosine\.digits"):
        zoo.load("resnet8-cosine")


@pytest.mark.slow
@pytest.mark.parametrize("objective", zoo.objectives.list())
def test_every_objective_reaches_93_percent_on_the_digits(objective):
    made = train(f"resnet8-{objective}", data="digits")
    assert made.results["test_accuracy"] >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("objective", zoo.objectives.list())
def test_a_resnet50_reaches_96_percent_on_the_digits(objective):
    assert train(f"resnet50-{objective}", data="digits").results["test_accuracy"] >= 0.96


def test_the_stored_card_equals_the_card_of_the_trained_model(zoo_home):
    made = quick("resnet8-sigmoid+dropout", rho=0.9)
    assert zoo.card(made.name) == trained.read(trained.path(made.name))[0].card == made.card
    assert made.card.link == "sigmoid"
    assert zoo.load(made.name).head.objective.name == "sigmoid+dropout"


def test_two_jobs_give_the_results_of_one(zoo_home, tmp_path):
    calls = [{"name": f"resnet8-{o}", "data": "digits[:64]", "epochs": 1, "save_as": o[:3]} for o in ("cosine", "softmax")]
    together = {made.name: made for made in train_each(calls, jobs=2)}
    assert sorted(together) == ["cos", "sof"]
    assert all(made.fresh for made in together.values())
    apart = train("resnet8-cosine", data="digits[:64]", epochs=1, save_as="cos", home=tmp_path)
    assert apart.results["train_nll"] == pytest.approx(together["cos"].results["train_nll"], rel=1e-3)
    assert not any(made.fresh for made in train_each(calls, jobs=1))


def test_an_error_in_a_job_reaches_the_caller(zoo_home):
    calls = [{"name": "resnet8-cosine", "data": "digits[:64]", "save_as": "x", "tau": tau} for tau in (-1.0, -2.0)]
    with pytest.raises(InputError, check=fields(argument="tau")):
        list(train_each(calls, jobs=2))


def test_a_killed_job_is_an_error(zoo_home):
    calls = [{"name": f"resnet8-{name}", "epochs": 500, "save_as": name[:3]} for name in ("cosine", "softmax")]
    killer = threading.Timer(3, lambda: [process.kill() for process in multiprocessing.active_children()])
    killer.start()
    with pytest.raises(ZooError, check=fields(problem="killed", hint="jobs")):
        list(train_each(calls, jobs=2))


def test_an_accelerator_trains_one_model_at_a_time(monkeypatch):
    assert default_jobs(1) == 1
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    assert default_jobs(8) == 1


@pytest.mark.parametrize("text", ["[1]\n", "{\n", "\x00", "[" * 100_000, '{"loss": NaN}\n'], ids=range(5))
def test_an_invalid_log_is_an_error_that_names_the_line(zoo_home, text):
    folder = zoo_home / "weights" / "small"
    folder.mkdir(parents=True)
    (folder / trained.LOG).write_text(text)
    with pytest.raises(ZooError, match=r"log\.jsonl.*line 1"):
        trained.log(folder)


def test_a_teacher_ensemble_averages_its_members_at_their_temperatures(zoo_home):
    """The soft targets against softmax(logits / T) of each member, averaged by hand."""
    quick("resnet8-softmax", save_as="one")
    quick("resnet8-cosine", save_as="two")
    images = zoo.datasets.load("digits:train[:40]")
    members = [EnsembleMember("one", 0.7, temperature=0.5), EnsembleMember("two", 0.3, temperature=4.0)]
    write_ensemble(zoo_home, "pair", members)
    targets = trainer.probabilities("pair", images, zoo_home, progress=False)
    logits = {member.name: zoo.load(member.name, device="cpu").predict(list(images)) for member in members}
    expected = sum(member.weight * (logits[member.name] / member.temperature).softmax(1) for member in members)
    torch.testing.assert_close(targets, expected, atol=1e-5, rtol=0)
    uncalibrated = sum(member.weight * logits[member.name].softmax(1) for member in members)
    assert (targets - uncalibrated).abs().max() > 0.01
    student = quick("resnet8-distillation", teacher="pair", save_as="student")
    assert student.card.hyperparameters["teacher"] == "pair"


def test_a_teacher_with_uncalibrated_members_is_warned_about(zoo_home):
    quick("resnet8-softmax", save_as="one")
    quick("resnet8-cosine", save_as="two")
    images = zoo.datasets.load("digits:train[:40]")
    write_ensemble(zoo_home, "inner", [EnsembleMember("one", 1.0), EnsembleMember("two", 1.0, temperature=2.0)])
    write_ensemble(zoo_home, "outer", [EnsembleMember("inner", 1.0), EnsembleMember("two", 1.0, temperature=2.0)])
    for name in ("inner", "outer"):
        with pytest.warns(ZooWarning, match=rf"{name}: 1 .*\(one\)"):
            trainer.probabilities(name, images, zoo_home, progress=False)


def write_ensemble(home, name: str, members: list[EnsembleMember]) -> None:
    training = Training("digits", "supervised", "mixed")
    card = Card(name, "ensemble", "ensemble", "ensemble", "digits", "softmax", "trained", training, members=members)
    (home / "cards").mkdir(parents=True, exist_ok=True)
    (home / "cards" / f"{name}.md").write_text(write(card))
