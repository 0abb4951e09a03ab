"""Training curves from logs: of plain images, up to the epoch of the final weights, or refused."""

import itertools

import pytest
from raised import fields

from diversity.training_curves import RECORD, TRAINING, VALIDATION, curve, separation_over_training
from zoo import training
from zoo.errors import CorruptFile, InputError
from zoo.models import trained

NAME = "resnet8-softmax"


def entry(epoch: int, holdout: tuple[float, float] | None = None, **separations: float) -> dict[str, float]:
    scores = {} if holdout is None else {"holdout_accuracy": holdout[0], "holdout_nll": holdout[1]}
    return {
        "epoch": epoch,
        "class_separation": 0.9,
        **scores,
        **{f"{k}_class_separation": x for k, x in separations.items()},
    }


def test_validation_comes_before_the_holdout() -> None:
    both = [entry(1, train=0.1, test=0.2), {**entry(2, train=0.3, test=0.4), "holdout_class_separation": 0.5}]
    assert separation_over_training({"a": both}).values.tolist() == [
        ["a", "train", 1, 0.1], ["a", "train", 2, 0.3], ["a", "test", 1, 0.2], ["a", "test", 2, 0.4],
    ]  # fmt: skip
    held = [{**entry(1, train=0.1), "holdout_class_separation": 0.5}]
    assert separation_over_training({"a": held})["split"].tolist() == ["train", "holdout"]


def test_a_curve_ends_at_the_epoch_whose_weights_are_kept() -> None:
    """The most accurate epoch on the holdout; of equal ones the one with the lower NLL, then the earlier one."""
    for scores in itertools.permutations([(0.8, 0.5), (0.9, 0.4), (0.9, 0.4), (0.9, 0.7)]):
        log = [entry(epoch, score, train=epoch / 10) for epoch, score in enumerate(scores, 1)]
        last = 1 + scores.index((0.9, 0.4))
        assert separation_over_training({"a": log})["epoch"].tolist() == [*range(1, last + 1)]
    log = [entry(epoch, train=epoch / 10) for epoch in (1, 2, 3)]
    assert separation_over_training({"a": log})["epoch"].tolist() == [1, 2, 3]  # no holdout


@pytest.mark.filterwarnings("ignore::zoo.errors.ZooWarning")
def test_the_epoch_is_that_of_the_trained_model() -> None:
    done = training.train(
        NAME, data="digits:train[:64]", epochs=3, save_as="held", batch_size=16, holdout=16, measure_every=1, progress=False
    )
    frame = separation_over_training("held")
    log = done.log[: done.record.epoch]
    assert frame[frame["split"] == "train"]["r2"].tolist() == [line["train_class_separation"] for line in log]
    assert frame[frame["split"] == "test"]["r2"].tolist() == [line["test_class_separation"] for line in log]
    assert curve(done.log, "accuracy", VALIDATION)[-1] == ("test", len(log), log[-1]["test_accuracy"])
    assert separation_over_training({"held": done.log}).equals(frame)


def test_a_log_without_plain_images_is_refused_with_the_option_that_records_them() -> None:
    batches = [entry(1, (0.5, 0.5))]
    with pytest.raises(InputError, check=fields(where="a", problem="plain training images", hint="--measure-every")):
        separation_over_training({"a": batches})
    assert curve(batches, "class_separation", TRAINING) == []
    assert "--measure-every" in RECORD


def test_logs_that_cannot_be_read() -> None:
    path = trained.path(f"{NAME}.digits").with_name("log.jsonl")
    with pytest.raises(InputError, check=fields(where=NAME, problem="log")):
        separation_over_training(NAME)
    path.parent.mkdir(parents=True)
    path.write_text('{"epoch": 1')
    with pytest.raises(CorruptFile, match="line 1"):
        separation_over_training(NAME)
    with pytest.raises(InputError, match=r"\.\./x"):
        separation_over_training("../x")
