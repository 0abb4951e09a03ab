"""The training loop: it learns, resumes to identical weights, and loses nothing when it fails."""

import json
import resource
import signal
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from raised import fields

from zoo import datasets, networks
from zoo.cards.card import Transform
from zoo.core import tensorfile
from zoo.errors import InputError, ZooError, ZooWarning
from zoo.networks.network import Network
from zoo.objectives import ObjectiveHead, get
from zoo.training import Recipe, fit, loop
from zoo.training.optimisation import optimiser
from zoo.training.processes import Processes

SMALL = Transform((3, 8, 8), (8, 8), "bilinear", (0.3,) * 3, (0.4,) * 3)


def recipe(**changes) -> Recipe:
    usual = {"transform": SMALL, "epochs": 3, "batch_size": 16, "learning_rate": 0.1, "weight_decay": 1e-3}
    return Recipe(**usual | changes)


def network(objective: str = "softmax", seed: int = 0) -> Network:
    torch.manual_seed(seed)
    return networks.build("resnet8", 10, objective, {}, SMALL.size)


@pytest.fixture(scope="module")
def few():
    """Seventy digits: four batches of sixteen an epoch, six images left over."""
    return datasets.load("digits:train").select(slice(0, 70))


def same(one: Network, other: Network) -> bool:
    ours, theirs = one.state_dict(), other.state_dict()
    return ours.keys() == theirs.keys() and all(value.equal(theirs[name]) for name, value in ours.items())


class Killed(BaseException):
    """Stands for the death of the process: no code catches it."""


def kill_at(monkeypatch, steps):
    """Kill training in the middle of each of these steps, in turn."""
    remaining, original = list(steps), loop.shift_and_flip

    def dying(pixels, settings, step, rows):
        if remaining and step >= remaining[0]:
            remaining.pop(0)
            raise Killed
        return original(pixels, settings, step, rows)

    monkeypatch.setattr(loop, "shift_and_flip", dying)
    return remaining


# Everything that has a state: momentum, batch statistics, averages, the best epoch, dropout, shifts, flips and mixup.
FULL = {"ema": 0.9, "mixup": 0.3, "early_side": 6, "shift": 1, "flip": True, "holdout": 20, "warmup_epochs": 1, "epochs": 4}


def test_the_loss_falls_and_the_log_has_one_entry_per_epoch(few):
    net = network()
    done = fit(net, few, recipe(epochs=12))
    assert [line["epoch"] for line in done.log] == list(range(1, 13))
    assert done.log[-1]["loss"] < 0.5 * done.log[0]["loss"]
    assert done.log[-1]["accuracy"] > 0.8
    assert set(done.log[0]) == {
        "epoch", "step", "loss", "accuracy", "nll", "class_separation", "learning_rate", "seconds", "images_per_second",
    }  # fmt: skip
    assert not net.training


@settings(max_examples=6, deadline=None)
@given(steps=st.lists(st.integers(0, 11), min_size=1, max_size=3), saves=st.booleans())
def test_a_killed_and_resumed_run_equals_an_uninterrupted_one_bit_for_bit(tmp_path_factory, few, steps, saves):
    """Whether the checkpoint was written just before the kill, long before, or not at all."""
    folder = tmp_path_factory.mktemp("run")
    uninterrupted = network("sigmoid+dropout")
    whole = fit(uninterrupted, few, recipe(**FULL))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "MAX_SAVING_FRACTION", np.inf)
        remaining = kill_at(patch, sorted(steps))
        interrupted = network("sigmoid+dropout")
        while remaining:
            with pytest.raises(Killed):
                fit(interrupted, few, recipe(**FULL), folder=folder, checkpoint_every=0.0 if saves else 0.05)
            interrupted = network("sigmoid+dropout", seed=99)  # a new process, whose initial weights must not matter
            if not (folder / loop.CHECKPOINT).exists():
                interrupted = network("sigmoid+dropout")
        resumed = fit(interrupted, few, recipe(**FULL), folder=folder)
    assert same(interrupted, uninterrupted)
    timing = {"seconds", "images_per_second"}
    for ours, theirs in zip(resumed.log, whole.log, strict=True):
        assert {k: v for k, v in ours.items() if k not in timing} == {k: v for k, v in theirs.items() if k not in timing}
    assert resumed.epoch == whole.epoch
    written = [list(json.loads(line)) for line in (folder / loop.LOG).read_text().splitlines()]
    assert written == [sorted(line) for line in whole.log]  # the same order of keys after any number of resumptions


def test_equal_recipes_give_equal_weights_and_another_seed_gives_others(few):
    one, again, other = network(), network(), network()
    torch.manual_seed(123)
    before = torch.get_rng_state()
    fit(one, few, recipe(shift=1))
    assert torch.get_rng_state().equal(before)
    torch.manual_seed(7)
    fit(again, few, recipe(shift=1))
    fit(other, few, recipe(shift=1, seed=1))
    assert same(one, again)
    assert not same(one, other)


def test_a_finished_run_takes_no_further_step(tmp_path, few):
    first, second = network(), network(seed=5)
    fit(first, few, recipe(), folder=tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, [0])
        done = fit(second, few, recipe(), folder=tmp_path)
    assert same(first, second)
    assert done.steps == 12
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert lines == done.log


def test_the_first_step_follows_the_formula_of_sgd(few):
    """Nesterov momentum, with weight decay on matrices only."""
    net, reference = network(), network()
    made = recipe(steps=1, batch_size=70, momentum=0.9, weight_decay=0.1)
    fit(net, few, made)
    reference.train()
    pixels = torch.stack([loop.Pipeline(SMALL)(few[i]) for i in range(70)])
    order = loop.batches.order(70, made, 0)[0]
    labels = torch.from_numpy(few.labels)[torch.from_numpy(order)]
    z = reference(pixels[torch.from_numpy(order)])[1]
    torch.nn.functional.cross_entropy(z, labels).backward()
    for (name, before), after in zip(reference.named_parameters(), net.parameters(), strict=True):
        gradient = before.grad + (0.1 * before if before.ndim > 1 else 0)
        expected = before - 0.1 * (gradient + 0.9 * gradient)
        torch.testing.assert_close(after, expected, rtol=1e-4, atol=1e-5, msg=name)


def test_weight_decay_excludes_scales_and_biases_unless_decay_norms_is_set():
    groups = optimiser(network(), recipe(weight_decay=0.3)).param_groups
    decayed, not_decayed = groups
    assert {p.ndim for p in decayed["params"]} == {2, 4}
    assert {p.ndim for p in not_decayed["params"]} == {1}
    assert (decayed["weight_decay"], not_decayed["weight_decay"]) == (0.3, 0.0)
    assert optimiser(network(), recipe(weight_decay=0.3, decay_norms=True)).param_groups[1]["weight_decay"] == 0.3
    assert decayed["nesterov"]


def test_the_fused_optimiser_gives_the_same_bits_as_the_default_one(few, monkeypatch):
    fused, default = network(), network()
    fit(fused, few, recipe())
    sgd = torch.optim.SGD
    monkeypatch.setattr(torch.optim, "SGD", lambda groups, fused, **options: sgd(groups, **options))
    fit(default, few, recipe())
    assert same(fused, default)


def test_the_average_of_the_weights_follows_its_recurrence(few, monkeypatch):
    """w_avg <- 0.8 w_avg + 0.2 w from the second step on, starting with the weights after the first."""
    seen, original = [], loop._Run._learn

    def watched(self, *arguments):
        loss = original(self, *arguments)
        seen.append(self.head.weight.detach().clone())
        return loss

    monkeypatch.setattr(loop._Run, "_learn", watched)
    net = network()
    fit(net, few, recipe(ema=0.8))
    average = seen[0]
    for weight in seen[1:]:
        average = 0.8 * average + 0.2 * weight
    torch.testing.assert_close(net.head.weight.detach(), average)
    assert not net.head.weight.equal(seen[-1])


def test_the_result_is_the_best_epoch_on_the_holdout(few):
    net = network()
    done = fit(net, few, recipe(epochs=8, holdout=30, learning_rate=0.4, schedule="exponential"))
    merits = [(line["holdout_accuracy"], -line["holdout_nll"]) for line in done.log]
    assert done.epoch == 1 + max(range(8), key=lambda i: merits[i])
    _, held_out = loop.batches.split_holdout(few, recipe(holdout=30))
    with torch.inference_mode():
        logits = net(torch.stack([loop.Pipeline(SMALL)(image) for image in held_out]))[1]
    assert (logits.argmax(1).numpy() == held_out.labels).mean() == pytest.approx(
        done.log[done.epoch - 1]["holdout_accuracy"]
    )


@pytest.mark.parametrize("changes", [{"crop": 0.3, "flip": True}, {"auto_augment": "imagenet"}, {"mixup": 0.2}])
def test_the_loss_falls_with_augmentation(few, changes):
    done = fit(network(), few, recipe(epochs=6, **changes), workers=0)
    assert done.log[-1]["loss"] < done.log[0]["loss"]


def test_early_side_shrinks_the_images_of_the_first_half_of_the_steps(few):
    net, sides = network(), []
    net.body.register_forward_pre_hook(
        lambda module, images: sides.append(tuple(images[0].shape[2:])) if module.training else None
    )
    fit(net, few, recipe(steps=7, early_side=4))
    assert sides == [(4, 4)] * 4 + [(8, 8)] * 3
    fixed = networks.build("mixer-mini", 10, "softmax", {}, SMALL.size)
    with pytest.raises(InputError, check=fields(argument="early_side", found=4, expected="8 pixels")):
        fit(fixed, few, recipe(early_side=4))


def test_a_frozen_body_does_not_change(few):
    net, before = network(), network()
    net.body.requires_grad_(False)
    fit(net, few, recipe())
    assert all(p.equal(q) for p, q in zip(net.body.parameters(), before.body.parameters(), strict=True))
    assert not net.head.weight.equal(before.head.weight)


def test_the_loss_in_bfloat16_is_close_to_that_in_float32(few):
    half, single = network(), network()
    emulated = Processes(recipe(precision="bfloat16")).emulates_bfloat16
    with pytest.warns(ZooWarning, match="bfloat16") if emulated else nullcontext():
        rough = fit(half, few, recipe(precision="bfloat16"))
    exact = fit(single, few, recipe())
    assert not same(half, single)
    assert rough.log[-1]["loss"] == pytest.approx(exact.log[-1]["loss"], rel=0.1)
    assert half.head.weight.dtype == torch.float32
    with pytest.raises(InputError, check=fields(argument="precision", found="float16", expected="CPU")):
        fit(network(), few, recipe(precision="float16"))


def test_training_may_end_within_an_epoch(few):
    done = fit(network(), few, recipe(steps=6))
    assert (done.steps, len(done.log), done.log[-1]["step"]) == (6, 2, 6)


def test_a_checkpoint_of_another_run_is_refused_and_not_changed(tmp_path, few):
    fit(network(), few, recipe(), folder=tmp_path, about={"objective": "softmax"})
    before = (tmp_path / loop.CHECKPOINT).read_bytes()
    with pytest.raises(InputError, check=fields(where=loop.CHECKPOINT, problem="recipe.learning_rate: 0.1 -> 0.2")):
        fit(network(), few, recipe(learning_rate=0.2), folder=tmp_path, about={"objective": "softmax"})
    with pytest.raises(InputError, check=fields(problem="objective: 'softmax' -> 'cosine'")):
        fit(network("cosine"), few, recipe(), folder=tmp_path, about={"objective": "cosine"})
    with pytest.raises(InputError, check=fields(problem="data: ")):
        fit(network(), few.select(slice(0, 60)), recipe(), folder=tmp_path, about={"objective": "softmax"})
    assert (tmp_path / loop.CHECKPOINT).read_bytes() == before
    fit(network(), few, recipe(learning_rate=0.2), folder=tmp_path, resume=False)


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty"])
def test_a_damaged_checkpoint_is_renamed_and_training_starts_from_the_beginning(tmp_path, few, damage):
    uninterrupted, net = network(), network()
    fit(uninterrupted, few, recipe(), folder=tmp_path)
    path = tmp_path / loop.CHECKPOINT
    data = bytearray(path.read_bytes())
    if damage == "flipped":
        data[-100] ^= 1
    path.write_bytes({"truncated": data[:-100], "flipped": data, "empty": b""}[damage])
    with pytest.warns(ZooWarning, match="checkpoint.safetensors.corrupt-1"):
        fit(net, few, recipe(), folder=tmp_path)
    assert same(net, uninterrupted)


def test_a_full_disk_is_an_error_and_the_last_checkpoint_stays(tmp_path, few, monkeypatch):
    monkeypatch.setattr(loop, "MAX_SAVING_FRACTION", np.inf)
    path = tmp_path / loop.CHECKPOINT
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, [5])
        with pytest.raises(Killed):
            fit(network(), few, recipe(), folder=tmp_path, checkpoint_every=0.0)
    good = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(good) // 2, hard))  # larger files fail, as on a full disk
        with pytest.raises(ZooError, check=fields(where="checkpoint.safetensors", problem="cannot be written")):
            fit(network(), few, recipe(), folder=tmp_path, checkpoint_every=0.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == good
    assert [file.name for file in tmp_path.iterdir() if "part" in file.name] == []
    uninterrupted, resumed = network(), network()
    fit(uninterrupted, few, recipe())
    fit(resumed, few, recipe(), folder=tmp_path)
    assert same(resumed, uninterrupted)


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path, few):
    (tmp_path / "file").write_text("")
    with pytest.raises(ZooError, check=fields(where="run", problem="cannot be written")):
        fit(network(), few, recipe(), folder=tmp_path / "file" / "run")


def test_divergence_is_an_error_that_names_the_epoch(few):
    with pytest.raises(loop.Diverged, check=fields(where="epoch 1", hint="learning_rate")):
        fit(network("squared-error"), few, recipe(learning_rate=1e6))


def test_a_network_that_does_not_suit_the_data_is_refused(few):
    bare = networks.build("resnet8", 10, input_size=SMALL.size)
    with pytest.raises(InputError, check=fields(argument="network", expected="ObjectiveHead", found="NoneType")):
        fit(Network(bare.body, None, bare.blocks), few, recipe())
    with pytest.raises(InputError, check=fields(argument="network", expected=["10", "digits"], found=3)):
        fit(Network(bare.body, ObjectiveHead(64, 3, get("softmax")), bare.blocks), few, recipe())
    with pytest.raises(InputError, check=fields(where="digits", found=["3"])):
        fit(network(), few.select(few.labels == 3), recipe())
    with pytest.raises(InputError, check=fields(argument="network", hint="requires_grad_")):
        fit(network().requires_grad_(False), few, recipe())
    with pytest.raises(InputError, check=fields(argument="batch_size", expected="70", found=71)):
        fit(network(), few, recipe(batch_size=71))


def test_a_checkpoint_with_the_names_of_older_versions_resumes(tmp_path, few):
    """Older checkpoints call the sums of the current epoch seen, right, surprise and of_class."""
    uninterrupted, resumed = network(), network()
    whole = fit(uninterrupted, few, recipe())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "MAX_SAVING_FRACTION", np.inf)
        kill_at(patch, [6])
        with pytest.raises(Killed):
            fit(network(), few, recipe(), folder=tmp_path, checkpoint_every=0.0)
    path = tmp_path / loop.CHECKPOINT
    tensors, note = tensorfile.read_sealed(path)
    older = {f"tally.{new}": f"tally.{old}" for old, new in loop._FORMER_TALLY_NAMES.items()}
    assert older.keys() <= tensors.keys()
    renamed = {older.get(name, name): np.array(values) for name, values in tensors.items()}
    path.write_bytes(tensorfile.encode(renamed, {key: note[key] for key in ("schema", "step", "log", "extra", "run")}))
    done = fit(resumed, few, recipe(), folder=tmp_path)
    assert same(resumed, uninterrupted)
    assert done.log[-1]["accuracy"] == whole.log[-1]["accuracy"]
    assert done.log[1]["nll"] == whole.log[1]["nll"]
