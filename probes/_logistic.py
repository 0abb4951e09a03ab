"""L2-regularised logistic regression to its optimum: Newton steps by preconditioned conjugate gradients, along a path.

    minimise  f(W, c) = sum_n loss(W x_n + c, y_n) + lambda ||W||^2,   with an unpenalised intercept c.

The solver stops by duality gap. With residuals R = dloss/dlogits at W, the dual point that belongs to R is feasible when the
intercept's gradient is zero. Its gap to f(W) is ||R^T X + 2 lambda W||^2 / (4 lambda): the squared gradient over twice the
strong convexity. This is a bound and not an estimate, so "within 1e-5 of the optimum" holds for any data, up to float32
rounding of the gradient. (The part of the intercept is measured through the Hessian.)
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from probes._examples import Examples, Point
from probes._losses import Loss
from probes._preconditioning import Exact, Kronecker
from probes._rows import Rows

MAX_STEPS = 60  # Newton steps
MAX_STEP_PRODUCTS = 200  # conjugate-gradient products in one Newton step
MAX_START_PRODUCTS = 300  # from a given start; then the solver approaches from a strong penalty instead
EXACT_FROM_PRODUCTS = 10  # at one strength: above it a small problem gets its exact Hessian
LEAD_IN_TOLERANCE = 1e-3  # on the way to the first strength
NEGLIGIBLE_LOSS = 1e-13  # of one example; a class that never occurs has its optimum at infinity


@dataclass(frozen=True)
class Solution:
    """Where the solver stopped, and how far from the optimum that can be."""

    parameters: Tensor  # [K, r + 1], the intercept last
    objective: Tensor  # [G] float64
    gap: Tensor  # [G] float64: an upper bound on objective minus optimum
    products: float  # passes over the features, as in `Examples.products`
    model: Kronecker


class Problem:
    """The regularised problems at one strength lambda each, [G]."""

    def __init__(self, examples: Examples, ridge: Tensor) -> None:
        self.examples, self.ridge = examples, ridge.double().reshape(-1, 1)

    def add_penalty(self, derivative: Tensor, parameters: Tensor) -> Tensor:
        """Return a derivative of the losses plus that of the penalty, 2 lambda W, at `parameters`."""
        out = derivative.clone()
        out[:, :-1] += (2 * self.ridge).to(out.dtype) * parameters[:, :-1]
        return out

    def dot(self, left: Tensor, right: Tensor) -> Tensor:
        """Return inner products in float64, [G, 1]: over all entries, or row by row if every row is its own problem."""
        rows = (left.double() * right.double()).sum(1, keepdim=True)
        return rows if self.examples.loss.problems == len(rows) else rows.sum(0, keepdim=True)

    def objective(self, point: Point) -> Tensor:
        weights = point.parameters[:, :-1]
        return point.value[:, None] + self.ridge * self.dot(weights, weights)

    def gap(self, gradient: Tensor, model: Kronecker) -> Tensor:
        weights, intercept = model.split(gradient)
        return self.dot(weights, weights) / (4 * self.ridge) + self.dot(intercept, intercept * model.intercept) / 2


def minimise(
    examples: Examples,
    ridge: Tensor,
    start: Tensor,
    tolerance: float,
    model: Kronecker | type[Kronecker] = Kronecker,
    max_products: float = math.inf,
) -> Solution:
    """Return the optimum to within `tolerance` times the objective, or the point where the solver can go no further.

    Args:
        examples: the rows and their loss.
        ridge: [G] strengths.
        start: [K, r + 1] parameters.
        tolerance: bound on gap / objective.
        model: the model of the Hessian, or the kind to build at the start.
        max_products: passes over the features after which no further Newton step begins.
    """
    problem, products_before = Problem(examples, ridge), examples.products
    point = examples.at(start)
    model = model(examples, point) if isinstance(model, type) else model
    objective, previous_gap = problem.objective(point), torch.tensor(torch.inf)
    negligible = NEGLIGIBLE_LOSS * len(examples) * (1 if start.dtype == torch.float32 else 1e-9)
    for _ in range(MAX_STEPS):
        gradient = problem.add_penalty(examples.gradient(point), point.parameters)
        gap, target = problem.gap(gradient, model), tolerance * objective + negligible
        unfinished = gap > target
        if not unfinished.any() or examples.products - products_before > max_products:
            break
        step, change = _newton_step(problem, model, point, gradient, unfinished, target)
        point, lower = _line_search(problem, point, step, change, objective, gradient)
        progress = (lower < objective * (1 - 0.1 * tolerance)) | (gap < previous_gap / 2)
        objective, previous_gap = lower, gap
        if not (unfinished & progress).any():
            break  # neither the objective nor the gap falls any more: the gradient is rounding error
    return Solution(point.parameters, objective[:, 0], gap[:, 0], examples.products - products_before, model)


def _newton_step(
    problem: Problem, model: Kronecker, point: Point, gradient: Tensor, unfinished: Tensor, target: Tensor
) -> tuple[Tensor, Tensor]:
    """Return (step, its change of the logits): the solution of H step = -gradient by conjugate gradients.

    The residual of the linear system equals the next gradient up to third-order terms, so its gap says when to stop: at the
    target, or at a hundredth of the initial gap, beyond which the quadratic no longer describes the function.
    """
    goal = torch.maximum(problem.gap(gradient, model) / 100, target / 1.5)
    step, change = torch.zeros_like(gradient), torch.zeros_like(point.logits)
    residual = -gradient
    solved = model.solve(residual, problem.ridge)
    direction, size = solved, problem.dot(residual, solved)
    active = unfinished
    for _ in range(MAX_STEP_PRODUCTS):
        product, logit_change = problem.examples.hessian_product(point, direction)
        product = problem.add_penalty(product, direction)
        curvature = problem.dot(direction, product)
        length = torch.where(active & (curvature > 0), size / curvature, 0.0).to(step.dtype)
        step += length * direction
        change += length.T * logit_change
        residual -= length * product
        active = active & (problem.gap(residual, model) > goal)
        if not active.any():
            break
        solved = model.solve(residual, problem.ridge)
        size, previous_size = problem.dot(residual, solved), size
        direction = solved + torch.where(previous_size > 0, size / previous_size, 0.0).to(step.dtype) * direction
    return step, change


def _line_search(
    problem: Problem, point: Point, step: Tensor, change: Tensor, objective: Tensor, gradient: Tensor
) -> tuple[Point, Tensor]:
    """Halve the step, for each problem, until the objective falls. In memory, trials cost no product."""
    slope = problem.dot(gradient, step)
    length = torch.ones_like(objective)
    rounding = torch.finfo(step.dtype).eps  # of the losses, relative to the objective
    while True:
        factor = length.to(step.dtype)
        trial = problem.examples.at(point.parameters + factor * step, point.logits + factor.T * change)
        value = problem.objective(trial)
        # An overflow compares as false, so a step that overflows is halved too.
        accepted = (value <= objective + 1e-4 * length * slope + rounding * objective) | (length == 0)
        if accepted.all():
            return trial, value
        length = torch.where(accepted, length, torch.where(length > 1e-6, length / 2, 0.0))


def path(values: Tensor | Rows, loss: Loss, ridges: Tensor, tolerance: float) -> Iterator[Solution]:
    """Yield the solutions at falling strengths.

    Each is started on the line through the last two solutions in log lambda. The optimum is smooth along log lambda, and
    for separable data it tends to a straight line there. A parabola through three solutions would fit the curve better, but
    would triple their errors. A path that begins at a weak strength is approached from a strong one by rough solutions in
    between, which are not returned.

    Args:
        values: [N, r + 1] features, the last column one.
        loss: the loss of these rows.
        ridges: [S, G] strengths, from strong to weak.
        tolerance: bound on gap / objective.
    """
    examples = Examples(values, loss)
    start = torch.zeros(len(loss.priors()), values.shape[1], dtype=values.dtype, device=values.device)
    start[:, -1] = loss.priors().to(values.dtype)
    # With features of unit size, the second derivative of the loss is at most N along an axis. A penalty of that size keeps
    # the weights small.
    decades = max(0, math.ceil(math.log10(len(values) / float(ridges[0].min()))))
    lead_in = [(ridges[0] * 10.0**k, max(tolerance, LEAD_IN_TOLERANCE)) for k in range(decades, 0, -1)]
    kind: type[Kronecker] = Kronecker
    model, spent = None, 0.0
    solutions: list[tuple[Tensor, Tensor]] = []  # the last two: ridge, parameters
    for number, (ridge, aim) in enumerate([*lead_in, *((ridge, tolerance) for ridge in ridges)]):
        guess = _extrapolate(solutions, ridge) if solutions else start
        solution = minimise(examples, ridge, guess, aim, model or kind)
        solutions = [*solutions[-1:], (ridge, solution.parameters)]
        # A new model is built once the old one has wasted as much as building costs: about a quarter of the products beyond
        # the two that any solution needs, as measured on several sets of features.
        spent += (solution.products - 2) / 4
        model = solution.model if spent < solution.model.cost(len(values)) and number >= len(lead_in) else None
        spent = 0.0 if model is None else spent
        if solution.products > EXACT_FROM_PRODUCTS and Exact.is_affordable(examples):
            kind = Exact
        if number >= len(lead_in):
            yield solution


def solve(values: Tensor | Rows, loss: Loss, ridge: Tensor, tolerance: float, start: Tensor | None = None) -> Solution:
    """Return the solution at one strength per problem, `ridge` [G].

    The solver begins at `start` [K, r + 1] if that is given and near; otherwise it approaches from a strong penalty.
    """
    if start is not None:
        solution = minimise(Examples(values, loss), ridge, start, tolerance, max_products=MAX_START_PRODUCTS)
        if (solution.gap <= tolerance * solution.objective).all():
            return solution
    return next(path(values, loss, ridge[None], tolerance))


def _extrapolate(solutions: Sequence[tuple[Tensor, Tensor]], ridge: Tensor) -> Tensor:
    """Return the point at `ridge` of the line through the last two solutions, at most 1.5 of their distances ahead."""
    last_ridge, last = solutions[-1]
    if len(solutions) == 1:
        return last
    first_ridge, first = solutions[0]
    reach = ((ridge / last_ridge).log() / (last_ridge / first_ridge).log()).clamp(max=1.5)
    return last + reach[:, None].to(last.dtype) * (last - first)
