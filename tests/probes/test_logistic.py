"""The solver against SciPy in float64, its derivatives against autograd, and its gap against tighter solutions."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch.nn import functional

from probes import _logistic
from probes._design import Design
from probes._examples import Examples
from probes._logistic import path, solve
from probes._losses import Sigmoids, Softmax
from probes._preconditioning import Exact


def classification(rows: int, width: int, classes: int, noise: float = 1.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return features with a decaying spectrum and an offset, and labels of a linear rule with noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, width)) / np.sqrt(1 + np.arange(width)) + rng.normal(size=width)
    z = (x - x.mean(0)) @ rng.normal(size=(width, classes)) + noise * rng.gumbel(size=(rows, classes))
    return x, z.argmax(1)


def objective(coef: np.ndarray, intercept: np.ndarray, x: np.ndarray, y: np.ndarray, strength: float) -> float:
    """Return the sum of log losses + strength ||W||^2 in float64."""
    z = x @ coef.T + intercept
    top = z.max(1, keepdims=True)
    losses = np.log(np.exp(z - top).sum(1)) + top[:, 0] - z[np.arange(len(y)), y]
    return float(losses.sum() + strength * (coef**2).sum())


def reference(x: np.ndarray, y: np.ndarray, strength: float) -> float:
    """Return the optimum by SciPy's L-BFGS at its tightest tolerance."""
    classes, width = y.max() + 1, x.shape[1]

    def value_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        w = flat.reshape(classes, width + 1)
        z = x @ w[:, :-1].T + w[:, -1]
        z -= z.max(1, keepdims=True)
        p = np.exp(z)
        p /= p.sum(1, keepdims=True)
        r = p.copy()
        r[np.arange(len(y)), y] -= 1
        gradient = np.concatenate([r.T @ x + 2 * strength * w[:, :-1], r.sum(0)[:, None]], 1)
        return objective(w[:, :-1], w[:, -1], x, y, strength), gradient.ravel()

    options = {"maxiter": 50_000, "maxfun": 50_000, "ftol": 1e-15, "gtol": 1e-11, "maxcor": 50}
    return float(
        minimize(value_and_gradient, np.zeros(classes * (width + 1)), jac=True, method="L-BFGS-B", options=options).fun
    )


@pytest.mark.parametrize("noise", [0.0, 1.5], ids=["separable", "noisy"])
def test_path_reaches_the_optimum_at_five_strengths(noise: float) -> None:
    x, y = classification(400, 20, 6, noise)
    strengths = [1e5, 1e2, 1.0, 1e-2, 1e-4]
    design = Design.of(torch.from_numpy(x))
    solutions = path(design.values, Softmax(torch.from_numpy(y), 6), design.ridge(strengths)[:, None], 1e-5)
    for strength, found in zip(strengths, solutions, strict=True):
        coef, intercept = (part.numpy() for part in design.from_design(found.parameters))
        reached, best = objective(coef, intercept, x, y, strength), reference(x, y, strength)
        assert reached == pytest.approx(best, rel=1e-5)
        assert float(found.objective) == pytest.approx(reached, rel=1e-6)
        assert reached - best <= float(found.gap) + 1e-7 * best  # the gap is a bound


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**31), st.sampled_from([1e-4, 1e-1, 10.0, 1e4]), st.integers(2, 6), st.integers(1, 30))
def test_gap_bounds_the_distance_from_the_optimum(seed: int, strength: float, classes: int, width: int) -> None:
    """The gap of a rough solution bounds its distance from a much tighter one."""
    x, _ = classification(60, width, classes, seed=seed)
    y = np.random.default_rng(seed).permutation(np.arange(60) % classes)
    design, loss = Design.of(torch.from_numpy(x)), Softmax(torch.from_numpy(y), classes)
    rough = next(path(design.values, loss, design.ridge([[strength]]), 1e-2))
    tight = next(path(design.values, loss, design.ridge([[strength]]), 1e-6))
    assert float(rough.objective - tight.objective) <= float(rough.gap) * 1.01 + 1e-6 * float(tight.objective)
    assert float(rough.gap) <= 1e-2 * float(rough.objective)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_derivatives_equal_autograd(scale: float) -> None:
    """The scales give nearly even to nearly certain probabilities."""
    generator = torch.Generator().manual_seed(0)
    z = (torch.randn(7, 5, generator=generator) * scale).double().requires_grad_()
    v = torch.randn(7, 5, generator=generator).double()
    y = torch.randint(0, 5, (7,), generator=generator)
    targets = torch.randint(0, 2, (7, 5), generator=generator)
    cases = [
        (Softmax(y, 5), lambda z: torch.nn.functional.cross_entropy(z, y, reduction="sum")),
        (
            Sigmoids(targets),
            lambda z: torch.nn.functional.binary_cross_entropy_with_logits(z, targets.double(), reduction="sum"),
        ),
    ]
    for loss, plain in cases:
        expansion = loss.expand(z.detach())
        (gradient,) = torch.autograd.grad(plain(z), z)
        _, curved = torch.autograd.functional.hvp(plain, z, v)
        torch.testing.assert_close(expansion.value.sum(), plain(z).detach())
        torch.testing.assert_close(expansion.residual, gradient, rtol=1e-6, atol=1e-12)
        torch.testing.assert_close(loss.hessian_product(expansion, v.clone()), curved, rtol=1e-6, atol=1e-12)
        summed, traces = loss.hessian_sums(expansion)
        hessian = torch.autograd.functional.hessian(plain, z)  # [7, 5, 7, 5], zero between rows
        blocks = torch.stack([hessian[n, :, n] for n in range(7)])
        torch.testing.assert_close(torch.diag(summed) if summed.ndim == 1 else summed, blocks.sum(0), rtol=1e-5, atol=1e-9)
        torch.testing.assert_close(traces, blocks.diagonal(dim1=1, dim2=2).sum(1), rtol=1e-6, atol=1e-12)


def test_certain_labels_keep_their_digits_in_float32() -> None:
    """At margins of 40 the loss is 4e-18: far below float32's 1 - p, but not below float32."""
    z = torch.tensor([[40.0, 0.0], [0.0, 40.0]])
    expansion = Softmax(torch.tensor([0, 1]), 2).expand(z)
    assert float(expansion.value) == pytest.approx(2 * np.exp(-40), rel=1e-5)
    assert expansion.residual[0, 0] == pytest.approx(-np.exp(-40), rel=1e-5)
    binary = Sigmoids(torch.tensor([[1], [0]])).expand(torch.tensor([[40.0], [-40.0]]))
    assert float(binary.value) == pytest.approx(2 * np.exp(-40), rel=1e-5)


def test_problems_solved_together_equal_problems_solved_alone() -> None:
    x, y = classification(300, 12, 4)
    targets = functional.one_hot(torch.from_numpy(y), 4)
    design = Design.of(torch.from_numpy(x))
    ridges = design.ridge([1e2, 1.0, 1e-2, 1e-3])
    together = solve(design.values, Sigmoids(targets), ridges, 1e-6)
    for k in range(4):
        alone = solve(design.values, Sigmoids(targets[:, k : k + 1]), ridges[k : k + 1], 1e-6)
        assert float(together.objective[k]) == pytest.approx(float(alone.objective), rel=2e-6)


def test_a_misleading_start_is_abandoned_after_a_limited_number_of_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a weak strength, Newton's method makes no progress from a start that is certain of the wrong classes."""
    x, y = classification(300, 12, 4, noise=0.0)
    design, loss = Design.of(torch.from_numpy(x)), Softmax(torch.from_numpy(y), 4)
    good = solve(design.values, loss, design.ridge([1e-6]), 1e-5)
    spent = []
    minimise = _logistic.minimise
    monkeypatch.setattr(_logistic, "minimise", lambda *a, **o: (found := minimise(*a, **o), spent.append(found.products))[0])
    rescued = solve(design.values, loss, design.ridge([1e-6]), 1e-5, start=-good.parameters)
    assert spent[0] < _logistic.MAX_START_PRODUCTS + _logistic.MAX_STEP_PRODUCTS
    assert len(spent) > 1
    assert float(rescued.objective) == pytest.approx(float(good.objective), rel=2e-5)
    assert float(rescued.gap) <= 1e-5 * float(rescued.objective)


def test_a_class_that_never_occurs_stops_at_a_negligible_loss() -> None:
    """Its intercept has its optimum at infinity."""
    x, _ = classification(100, 5, 2)
    design = Design.of(torch.from_numpy(x))
    found = solve(design.values, Sigmoids(torch.zeros(100, 1)), design.ridge([1.0]), 1e-5)
    assert 0 < float(found.objective) < 1e-6
    assert found.parameters[:, -1] < -15


@pytest.mark.parametrize("shape", [(50, 8), (8, 50)], ids=["tall", "wide"])
def test_design_keeps_logits_and_penalties_and_inverts(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=shape) * 1e3 + 1e6)
    design = Design.of(x)
    assert design.values.shape == (shape[0], min(shape) + 1)
    parameters = torch.from_numpy(rng.normal(size=(3, min(shape) + 1))).float()
    coef, intercept = design.from_design(parameters)
    torch.testing.assert_close((x @ coef.T + intercept).float(), design.values @ parameters.T, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(design.transform(x).tensor(), design.values, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(design.to_design(coef, intercept), parameters, rtol=1e-4, atol=1e-3)
    penalty = float(design.ridge(2.0)) * parameters[:, :-1].double().square().sum()
    torch.testing.assert_close(penalty, 2.0 * coef.square().sum())


def test_the_exact_model_inverts_autograds_hessian() -> None:
    torch.manual_seed(0)
    values = torch.cat([torch.randn(60, 4), torch.ones(60, 1)], 1)
    labels = torch.randint(0, 3, (60,))
    parameters, ridge = torch.randn(3, 5), torch.full((1, 1), 0.3, dtype=torch.float64)
    loss = Softmax(labels, 3)
    examples = Examples(values, loss)
    model = Exact(examples, examples.at(parameters))

    def objective(flat: torch.Tensor) -> torch.Tensor:
        weights = flat.reshape(3, 5)
        sum_of_losses = torch.nn.functional.cross_entropy(values.double() @ weights.T, labels, reduction="sum")
        return sum_of_losses + 0.3 * weights[:, :-1].square().sum()

    hessian = torch.autograd.functional.hessian(objective, parameters.double().flatten())
    step = torch.randn(3, 5)
    step -= step.mean(0)  # the models leave out the direction that adds a constant to all classes
    gradient = (hessian @ step.double().flatten()).reshape(3, 5).float()
    torch.testing.assert_close(model.solve(gradient, ridge), step, rtol=1e-4, atol=1e-5)


def test_small_problems_at_weak_strengths_take_few_products() -> None:
    torch.manual_seed(1)
    values = torch.cat([torch.randn(400, 20), torch.ones(400, 1)], 1)
    labels = (values[:, :4] + 2 * torch.randn(400, 4)).argmax(1)
    ridges = torch.logspace(2, -6, 33, dtype=torch.float64)[:, None]
    products = [solution.products for solution in path(values, Softmax(labels, 4), ridges, 1e-5)]
    assert max(products[-10:]) <= 10


def test_the_exact_model_is_for_small_multinomial_problems_only() -> None:
    labels = torch.arange(3000) % 50
    assert not Exact.is_affordable(Examples(torch.ones(3000, 257), Softmax(labels, 50)))
    assert not Exact.is_affordable(Examples(torch.ones(30, 3), Sigmoids(torch.ones(30, 2))))
    assert Exact.is_affordable(Examples(torch.ones(900, 65), Softmax(labels[:900] % 4, 4)))
