"""Objectives: values against their formulas in float64 NumPy, gradients against finite differences."""

import dataclasses
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from raised import fields

import zoo.objectives as objectives
from zoo.cards import recipe_names
from zoo.cards.recipe_names import OBJECTIVES
from zoo.errors import InputError, UnknownName
from zoo.objectives import catalogue

SETTINGS = {
    "label-smoothing": {"alpha": 0.13},
    "extra-l2": {"lambda_final": 0.02},
    "logit-penalty": {"beta": 0.003},
    "logit-norm": {"tau": 0.3},
    "cosine": {"tau": 0.2},
    "squared-error": {"kappa": 5.0, "M": 2.5, "loss_scale": 3.0},
}
DETERMINISTIC = [name for name in OBJECTIVES if name != "dropout"]


def log_sum_exp(z):
    top = z.max()
    return top + math.log(sum(math.exp(v - top) for v in z))


def softmax_loss(z, t):
    return -float(t @ z) + t.sum() * log_sum_exp(z)


def formula(name, x, W, b, t, alpha=0.0, lambda_final=0.0, beta=0.0, tau=1.0, kappa=1.0, M=1.0, loss_scale=1.0):
    """The mean loss, one example at a time, straight from the equations of Kornblith et al. (2021), section 2."""
    total = 0.0
    for features, target in zip(x, t, strict=True):
        z, K = W @ features + b, len(W)
        if name == "label-smoothing":
            total += softmax_loss(z, (1 - alpha) * target + alpha / K) / (1 - alpha)
        elif name == "extra-l2":
            total += softmax_loss(z, target) + lambda_final * (W**2).sum()
        elif name == "logit-penalty":
            total += softmax_loss(z, target) + beta * (z**2).sum()
        elif name == "logit-norm":
            total += softmax_loss(z / (tau * math.sqrt((z**2).sum())), target)
        elif name == "cosine":
            cosines = W @ features / np.sqrt((W**2).sum(1) * (features**2).sum())
            total += softmax_loss(cosines / tau + b, target) * (tau if tau < 0.05 else 1)
        elif name == "sigmoid":
            total += -float(target @ z) + sum(max(v, 0) + math.log1p(math.exp(-abs(v))) for v in z)
        elif name == "squared-error":
            pulls = kappa * target * (z - M) ** 2 + (1 - target) * z**2
            total += loss_scale * pulls.mean()
        else:
            total += softmax_loss(z, target)
    return total / len(x)


@st.composite
def problems(draw, max_scale=100.0):
    """Features, weights, biases and targets; logits from tiny to far beyond where exp overflows."""
    N, D, K = draw(st.integers(1, 5)), draw(st.integers(1, 6)), draw(st.integers(2, 50))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([1e-3, 1.0, max_scale]))
    x, W, b = rng.normal(size=(N, D)) * scale, rng.normal(size=(K, D)) * scale, rng.normal(size=K)
    hard = np.eye(K)[rng.integers(0, K, N)]
    t = hard if draw(st.booleans()) else rng.dirichlet(np.ones(K), N)
    return x, W, b, t


def tensors(*arrays_):
    return [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in arrays_]


@pytest.mark.parametrize("name", DETERMINISTIC)
@given(problem=problems())
@settings(max_examples=40, deadline=None)
def test_the_value_is_the_papers_formula(name, problem):
    x, W, b, t = problem
    value = objectives.get(name, **SETTINGS.get(name, {}))(x, W, b, t)
    assert isinstance(value, np.ndarray | np.floating)
    expected = formula(name, x, W, b, t, **SETTINGS.get(name, {}))
    assert float(value) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", DETERMINISTIC)
@given(problem=problems(max_scale=3.0))
@settings(max_examples=15, deadline=None)
def test_the_gradient_is_the_slope_of_the_formula(name, problem):
    """Central differences of the NumPy formula, not of our own code, in a random direction of (x, W, b)."""
    x, W, b, t = problem
    x, W = np.where(np.abs(x) < 1e-2, x + 0.1, x), np.where(np.abs(W) < 1e-2, W + 0.1, W)  # away from the kink at length 0
    inputs = tensors(x, W, b)
    objectives.get(name, **SETTINGS.get(name, {}))(*inputs, torch.tensor(t)).backward()
    rng = np.random.default_rng(0)
    directions = [rng.normal(size=a.shape) for a in (x, W, b)]
    step = 1e-6
    ahead, behind = (
        formula(
            name, *(a + sign * step * d for a, d in zip((x, W, b), directions, strict=True)), t, **SETTINGS.get(name, {})
        )
        for sign in (1, -1)
    )
    slope = sum(float((g.grad.numpy() * d).sum()) for g, d in zip(inputs, directions, strict=True) if g.grad is not None)
    assert slope == pytest.approx((ahead - behind) / (2 * step), rel=2e-4, abs=1e-5)


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_autograd_agrees_with_finite_differences(name):
    x, W, b = tensors(*(np.random.default_rng(1).normal(size=s) for s in ((4, 5), (3, 5), (3,))))
    y = torch.tensor([0, 2, 1, 2])
    loss = objectives.get(name, **SETTINGS.get(name, {}))
    assert torch.autograd.gradcheck(lambda *args: loss(*args, y), (x, W, b), check_undefined_grad=False)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("size", [0.0, 1e4])
def test_extreme_features_give_finite_values_and_gradients_in_float32(name, size):
    x = torch.full((3, 4), size, requires_grad=True)
    W, b = torch.ones(5, 4, requires_grad=True), torch.zeros(5, requires_grad=True)
    value = objectives.get(name)(x, W, b, torch.tensor([0, 1, 4]))
    value.backward()
    assert torch.isfinite(value)
    assert all(torch.isfinite(v.grad).all() for v in (x, W, b) if v.grad is not None)


@pytest.mark.parametrize(
    ("name", "neutral"),
    [
        ("label-smoothing", {"alpha": 0}),
        ("dropout", {"rho": 1}),
        ("extra-l2", {"lambda_final": 0}),
        ("logit-penalty", {"beta": 0}),
    ],
)
@given(problem=problems())
@settings(max_examples=20, deadline=None)
def test_a_penalty_of_strength_zero_is_softmax(name, neutral, problem):
    x, W, b, t = problem
    assert float(objectives.get(name, **neutral)(x, W, b, t)) == float(objectives.get("softmax")(x, W, b, t))


def test_label_smoothing_keeps_the_gradient_of_the_true_logit():
    """The factor 1/(1 - alpha) keeps the -1 on the true class's logit; only the log-sum-exp term grows."""
    x = torch.eye(3, dtype=torch.float64)[:1]
    W = torch.zeros(3, 3, dtype=torch.float64)
    b = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    alpha = 0.3
    objectives.get("label-smoothing", alpha=alpha)(x, W, b, torch.tensor([0])).backward()
    uniform = 1 / 3
    assert b.grad[0].item() == pytest.approx(uniform / (1 - alpha) - 1 - alpha * uniform / (1 - alpha))


def test_squared_error_with_all_settings_one_is_the_mean_squared_error():
    rng = np.random.default_rng(3)
    x, W, b, y = rng.normal(size=(6, 4)), rng.normal(size=(5, 4)), rng.normal(size=5), rng.integers(0, 5, 6)
    expected = ((x @ W.T + b - np.eye(5)[y]) ** 2).mean()
    assert float(objectives.get("squared-error", kappa=1, M=1, loss_scale=1)(x, W, b, y)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("tau", "options", "scale"),
    [
        (0.02, {}, 0.02),
        (0.049, {}, 0.049),
        (0.05, {}, 1),
        (0.07, {}, 1),
        (0.07, {"scale_below": 1}, 0.07),
        (0.02, {"scale_below": 0}, 1),
    ],
)
def test_the_cosine_loss_is_multiplied_by_tau_below_the_threshold(tau, options, scale):
    rng = np.random.default_rng(4)
    x, W, b, y = rng.normal(size=(6, 4)), rng.normal(size=(5, 4)), rng.normal(size=5), rng.integers(0, 5, 6)
    cosine = objectives.get("cosine", tau=tau, **options)
    assert cosine.hyperparameters == {"tau": tau} | options
    z = cosine.logits(*(torch.tensor(v) for v in (x, W, b)))
    assert float(cosine(x, W, b, y)) == pytest.approx(scale * torch.nn.functional.cross_entropy(z, torch.tensor(y)).item())


def test_cosine_and_logit_norm_logits_do_not_depend_on_the_scale_of_features():
    rng = torch.Generator().manual_seed(0)
    x, W, b = torch.rand(6, 4, generator=rng), torch.rand(3, 4, generator=rng), torch.zeros(3)
    cosine, norm = objectives.get("cosine", tau=0.1), objectives.get("logit-norm", tau=0.1)
    torch.testing.assert_close(cosine.logits(7 * x, W * torch.tensor([[1.0], [2], [3]]), b), cosine.logits(x, W, b))
    assert cosine.logits(x, W, b).abs().max() <= 10 + 1e-5
    torch.testing.assert_close(norm.logits(7 * x, W, b), norm.logits(x, W, b))
    torch.testing.assert_close(norm.logits(x, W, b).norm(dim=1), torch.full((6,), 10.0))


def test_dropout_is_applied_in_training_only_and_keeps_the_mean():
    x, W, b, y = torch.ones(2000, 8), torch.eye(4, 8), torch.zeros(4), torch.zeros(2000, dtype=torch.long)
    dropout = objectives.get("dropout", rho=0.6)
    torch.manual_seed(0)
    kept = dropout.features(x)
    assert kept.unique().tolist() == pytest.approx([0.0, 1 / 0.6])
    assert kept.mean() == pytest.approx(1.0, abs=0.02)
    assert dropout(x, W, b, y, training=False) == objectives.get("softmax")(x, W, b, y)
    assert dropout(x, W, b, y) > objectives.get("softmax")(x, W, b, y)  # Jensen: the expected log-sum-exp grows
    assert dropout.logits(x, W, b).equal(objectives.get("softmax").logits(x, W, b))


def test_sigmoid_is_initialised_with_probabilities_of_one_over_k():
    head = objectives.ObjectiveHead(8, 50, objectives.get("sigmoid+dropout"))
    assert torch.sigmoid(head.bias).sum().item() == pytest.approx(1.0, abs=0.03)
    assert objectives.get("softmax").init_bias(50) == 0


def test_a_head_returns_the_logits_and_the_loss_of_its_objective():
    objective = objectives.get("cosine+dropout", tau=0.1, rho=0.5)
    head, x = objectives.ObjectiveHead(16, 5, objective), torch.rand(7, 16)
    t = torch.eye(5)[:1].repeat(7, 1)
    assert head(x).equal(objective.logits(x, head.weight, head.bias))
    assert head.eval().loss(x, t).equal(objective(x, head.weight, head.bias, t, training=False))
    assert sorted(head.state_dict()) == ["bias", "weight"]


@given(problem=problems())
@settings(max_examples=20, deadline=None)
def test_a_combination_is_the_sum_of_its_parts(problem):
    """Combinations of Table C.4, written out."""
    x, W, b, t = problem
    both = float(objectives.get("sigmoid+logit-penalty+extra-l2", beta=0.01, lambda_final=0.1)(x, W, b, t))
    z = x @ W.T + b
    penalties = 0.01 * (z**2).sum(1).mean() + 0.1 * (W**2).sum()
    assert both == pytest.approx(formula("sigmoid", x, W, b, t) + penalties, rel=1e-9)
    smooth = 0.8 * t + 0.2 / len(W)
    normed = objectives.get("logit-norm+label-smoothing", tau=0.5, alpha=0.2)(x, W, b, t)
    assert float(normed) == pytest.approx(formula("logit-norm", x, W, b, smooth, tau=0.5) / 0.8, rel=1e-9)


def test_a_combination_has_the_link_and_the_settings_of_its_parts():
    pair = objectives.get("dropout+sigmoid", rho=0.9)
    assert (pair.name, pair.link, pair.hyperparameters) == ("dropout+sigmoid", "sigmoid", {"rho": 0.9})
    assert objectives.get("cosine+label-smoothing").link == "softmax"


@pytest.mark.parametrize(
    ("name", "hyperparameters", "where", "kind", "unknown", "suggestions"),
    [
        ("cosin", {}, "None", "objective", "cosin", ("cosine",)),
        ("zoftmax", {}, "None", "objective", "zoftmax", ("softmax",)),
        ("sigmoid+drop-out", {}, "sigmoid+drop-out", "objective", "drop-out", ("dropout",)),
        ("cosine", {"taw": 0.1}, "cosine", "hyper-parameter", "taw", ("tau",)),
        ("softmax", {"tau": 0.1}, "softmax", "hyper-parameter", "tau", ()),
    ],
)
def test_an_unknown_name_suggests_similar_ones(name, hyperparameters, where, kind, unknown, suggestions):
    check = fields(where=where, kind=kind, name=unknown, suggestions=suggestions)
    with pytest.raises(UnknownName, check=check):
        objectives.get(name, **hyperparameters)


@pytest.mark.parametrize(
    ("name", "argument", "value", "expected"),
    [
        ("cosine", "tau", 0, "above 0"),
        ("logit-norm", "tau", -0.1, "above 0"),
        ("cosine", "tau", float("inf"), "finite"),
        ("cosine", "tau", "0.05", "number"),
        ("label-smoothing", "alpha", 1, ["at least 0", "below 1"]),
        ("dropout", "rho", 0, "above 0"),
        ("dropout", "rho", 1.1, "at most 1"),
        ("extra-l2", "lambda_final", -1, "at least 0"),
        ("squared-error", "kappa", True, "number"),
    ],
)
def test_a_hyperparameter_outside_its_range_is_an_error(name, argument, value, expected):
    with pytest.raises(InputError, check=fields(where=name, argument=argument, found=value, expected=expected)):
        objectives.get(name, **{argument: value})


def test_a_hyperparameter_that_is_not_a_number_is_an_error():
    with pytest.raises(InputError, check=fields(argument="tau", expected="finite")):
        objectives.get("cosine", tau=float("nan"))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("cosine+logit-norm", ["cosine", "logit-norm", "logits"]),
        ("sigmoid+squared-error", ["sigmoid", "squared-error", "losses"]),
        ("dropout+dropout", "twice"),
        ("logit-norm+distilled", "distilled"),
    ],
)
def test_parts_that_cannot_be_combined_are_an_error(name, problem):
    with pytest.raises(InputError, check=fields(where=name, problem=problem)):
        objectives.get(name)


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"x": torch.ones(4)}, "x"),
        ({"x": torch.ones(0, 3)}, "x"),
        ({"W": torch.ones(5, 7)}, "W"),
        ({"b": torch.ones(4)}, "b"),
        ({"x": torch.ones(2, 3, dtype=torch.long)}, "x"),
        ({"y": torch.full((2, 5), 1.5)}, "y"),
        ({"y": torch.full((2, 5), float("nan"))}, "y"),
        ({"y": torch.ones(2, 4)}, "y"),
    ],
)
def test_wrong_shapes_and_targets_are_an_error(change, argument):
    problem = {"x": torch.ones(2, 3), "W": torch.ones(5, 3), "b": torch.zeros(5), "y": torch.tensor([0, 1])} | change
    with pytest.raises(InputError, check=fields(argument=argument, where="objective softmax")):
        objectives.get("softmax")(**problem)


@pytest.mark.parametrize("y", [[0, 5], [0, 1, 2]])
def test_class_indices_out_of_range_or_of_another_number_are_an_error(y):
    with pytest.raises(InputError, match="y"):
        objectives.get("softmax")(torch.ones(2, 3), torch.ones(5, 3), torch.zeros(5), torch.tensor(y))


def test_a_user_registers_an_objective(monkeypatch):
    monkeypatch.setattr(catalogue, "_OBJECTIVES", dict(catalogue._OBJECTIVES))
    monkeypatch.setattr(recipe_names, "_registered", [])

    @objectives.register("focal")
    @dataclasses.dataclass(frozen=True)
    class Focal(objectives.Objective):
        gamma: float = 2.0

        def losses(self, z, t):
            log_p = z.log_softmax(1)
            return -(t * (1 - log_p.exp()) ** self.gamma * log_p).sum(1)

    assert objectives.list()[-1] == "focal"
    x, W, b, y = torch.rand(4, 3), torch.rand(5, 3), torch.zeros(5), torch.tensor([0, 1, 2, 3])
    softmax = objectives.get("softmax")
    torch.testing.assert_close(objectives.get("focal", gamma=0.0)(x, W, b, y), softmax(x, W, b, y))
    assert objectives.get("focal+dropout", gamma=3.0, rho=0.5).hyperparameters == {"gamma": 3.0, "rho": 0.5}
    with pytest.raises(InputError, check=fields(argument="name", found="focal")):
        objectives.register("focal")


@pytest.mark.parametrize("name", ["a/b", "two+parts", ""])
def test_an_invalid_name_is_not_registered(name):
    with pytest.raises(InputError):
        objectives.register(name)


@pytest.mark.parametrize("dataset", ["in1k", "cifar10", "cifar100", "digits", "folder"])
@pytest.mark.parametrize("name", [*OBJECTIVES, "sigmoid+dropout"])
def test_every_default_is_a_valid_hyperparameter(name, dataset):
    values = objectives.defaults(name, dataset)
    assert objectives.get(name, **values).hyperparameters == values


def test_defaults_are_the_values_of_the_paper():
    assert objectives.list() == list(OBJECTIVES)
    assert objectives.get("squared-error").hyperparameters == {"kappa": 9, "M": 60, "loss_scale": 10}
    for name in OBJECTIVES:
        assert objectives.get(name).hyperparameters == objectives.defaults(name, "in1k")
    assert objectives.defaults("cosine", "cifar100") == {"tau": 0.1}
    assert objectives.defaults("logit-penalty", "cifar10")["beta"] == pytest.approx(0.00148, abs=1e-5)


def test_short_recipes_have_hyperparameters_of_their_own():
    paper, short = (objectives.defaults("logit-penalty", "cifar10", name) for name in ("all-cnn-c", "resnet7"))
    assert paper == objectives.defaults("logit-penalty", "cifar10")
    assert short == {"beta": 0.0045} == objectives.defaults("logit-penalty", "cifar10-half", "resnet7")
    assert objectives.defaults("logit-penalty", "digits", "resnet7") == objectives.defaults("logit-penalty", "digits")


def test_names_and_defaults_are_read_without_loading_torch():
    code = "import sys, zoo.cards.recipe_names, zoo.cards.tuned; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
