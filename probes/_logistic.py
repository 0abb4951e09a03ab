"""L2-regularised logistic regression to its optimum: Newton steps by preconditioned conjugate gradients, along a path.

    minimise  f(W, c) = sum_n loss(W x_n + c, y_n) + lambda ||W||^2,   the intercept c free.

The stop is a duality gap. With residuals R = dloss/dlogits at W, the dual point that belongs to R is feasible when the
intercept's gradient is zero, and its gap to f(W) comes out as ||R^T X + 2 lambda W||^2 / (4 lambda): the squared gradient
over twice the strong convexity. No estimate is involved, so "within 1e-5 of the optimum" holds whatever the data are, up
to float32 rounding of the gradient itself. (The intercept's own share is measured through the curvature.)
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from probes._design import Stream
from probes._examples import Examples, Place
from probes._losses import Loss
from probes._preconditioning import Exact, Kronecker

MOST_STEPS = 60
MOST_PRODUCTS = 200  # conjugate-gradient products in one Newton step
MANY_PRODUCTS = 10  # at one strength
LEAD_IN = 1e-3  # tolerance on the way to the first strength
NOTHING = 1e-13  # loss of an example not worth a step; an outcome that never occurs has its optimum at infinity


@dataclass(frozen=True)
class Solution:
    """Where the solver stopped, and how far from the optimum that can be."""

    parameters: Tensor  # [K, r + 1], the intercept last
    objective: Tensor  # [G] float64
    gap: Tensor  # [G] float64: a bound on objective minus optimum
    products: float  # passes over the features, there and back
    model: Kronecker


class Problem:
    """One strength's problem: examples and lambda [G]."""

    def __init__(self, examples: Examples, ridge: Tensor) -> None:
        self.examples, self.ridge = examples, ridge.double().reshape(-1, 1)

    def penalised(self, derivative: Tensor, parameters: Tensor) -> Tensor:
        """A derivative of the losses with the penalty's share, 2 lambda W, taken from `parameters`."""
        out = derivative.clone()
        out[:, :-1] += (2 * self.ridge).to(out.dtype) * parameters[:, :-1]
        return out

    def dot(self, left: Tensor, right: Tensor) -> Tensor:
        """Inner products in float64, [G, 1]: over everything, or row by row where every row is its own problem."""
        rows = (left.double() * right.double()).sum(1, keepdim=True)
        return rows if self.examples.loss.problems == len(rows) else rows.sum(0, keepdim=True)

    def objective(self, here: Place) -> Tensor:
        weights = here.parameters[:, :-1]
        return here.value[:, None] + self.ridge * self.dot(weights, weights)

    def gap(self, gradient: Tensor, model: Kronecker) -> Tensor:
        weights, intercept = model.split(gradient)
        return self.dot(weights, weights) / (4 * self.ridge) + self.dot(intercept, intercept * model.intercept) / 2


def minimise(
    examples: Examples,
    ridge: Tensor,
    start: Tensor,
    tolerance: float,
    model: Kronecker | type[Kronecker] = Kronecker,
) -> Solution:
    """The optimum to within `tolerance` of the objective, from `start`. `model`: of curvature, or which kind to build."""
    problem, before_all = Problem(examples, ridge), examples.products
    here = examples.at(start)
    model = model(examples, here) if isinstance(model, type) else model
    objective, before = problem.objective(here), torch.tensor(torch.inf)
    nothing = NOTHING * len(examples) * (1 if start.dtype == torch.float32 else 1e-9)
    for _ in range(MOST_STEPS):
        gradient = problem.penalised(examples.gradient(here), here.parameters)
        gap, target = problem.gap(gradient, model), tolerance * objective + nothing
        unfinished = gap > target
        if not unfinished.any():
            break
        step, change = _newton_step(problem, model, here, gradient, unfinished, target)
        here, lower = _line_search(problem, here, step, change, objective, gradient)
        moved = (lower < objective * (1 - 0.1 * tolerance)) | (gap < before / 2)
        objective, before = lower, gap
        if not (unfinished & moved).any():
            break  # neither the objective nor the gap moves any more: the gradient is down to its rounding
    return Solution(here.parameters, objective[:, 0], gap[:, 0], examples.products - before_all, model)


def _newton_step(
    problem: Problem, model: Kronecker, here: Place, gradient: Tensor, unfinished: Tensor, target: Tensor
) -> tuple[Tensor, Tensor]:
    """(step, its change of the logits): H step = -gradient by conjugate gradients.

    The residual of the linear system is the next gradient but for third-order terms, so its gap says when to stop: at the
    target, or a hundredfold below where it began, beyond which the quadratic is no longer the function.
    """
    goal = torch.maximum(problem.gap(gradient, model) / 100, target / 1.5)
    step, change = torch.zeros_like(gradient), torch.zeros_like(here.logits)
    residual = -gradient
    solved = model.solve(residual, problem.ridge)
    direction, size = solved, problem.dot(residual, solved)
    active = unfinished
    for _ in range(MOST_PRODUCTS):
        curved, ahead = problem.examples.curve(here, direction)
        curved = problem.penalised(curved, direction)
        along = problem.dot(direction, curved)
        length = torch.where(active & (along > 0), size / along, 0.0).to(step.dtype)
        step += length * direction
        change += length.T * ahead
        residual -= length * curved
        active = active & (problem.gap(residual, model) > goal)
        if not active.any():
            break
        solved = model.solve(residual, problem.ridge)
        size, last = problem.dot(residual, solved), size
        direction = solved + torch.where(last > 0, size / last, 0.0).to(step.dtype) * direction
    return step, change


def _line_search(
    problem: Problem, here: Place, step: Tensor, change: Tensor, objective: Tensor, gradient: Tensor
) -> tuple[Place, Tensor]:
    """Halve the step, problem by problem, until the objective falls; in memory trials cost no product."""
    slope = problem.dot(gradient, step)
    length = torch.ones_like(objective)
    # What the losses, summed in the step's precision, can mean of the objective.
    rounding = torch.finfo(step.dtype).eps
    while True:
        by = length.to(step.dtype)
        there = problem.examples.at(here.parameters + by * step, here.logits + by.T * change)
        value = problem.objective(there)
        # An overflow compares as false, so it is too long too.
        short_enough = (value <= objective + 1e-4 * length * slope + rounding * objective) | (length == 0)
        if short_enough.all():
            return there, value
        length = torch.where(short_enough, length, torch.where(length > 1e-6, length / 2, 0.0))


def path(values: Tensor | Stream, loss: Loss, ridges: Tensor, tolerance: float) -> Iterator[Solution]:
    """The solutions at falling strengths, `ridges` [S, G], each started on the line through the last two in log lambda.

    The optimum is smooth along log lambda, and for separable data it tends to a straight line there. A straight line it is:
    a parabola through three solutions would fit the curve better, but it triples what each of them is off by. A path that
    begins at a weak strength is led there from a strong one by rough solutions in between, which are not given out.
    """
    examples = Examples(values, loss)
    start = torch.zeros(len(loss.priors()), values.shape[1], dtype=values.dtype, device=values.device)
    start[:, -1] = loss.priors().to(values.dtype)
    # Features of unit size curve the loss by N at most along an axis: a penalty of that size keeps the weights small.
    decades = max(0, math.ceil(math.log10(len(values) / float(ridges[0].min()))))
    lead = [(ridges[0] * 10.0**k, max(tolerance, LEAD_IN)) for k in range(decades, 0, -1)]
    kind: type[Kronecker] = Kronecker
    model, spent = None, 0.0
    found: list[tuple[Tensor, Tensor]] = []
    for number, (ridge, aim) in enumerate([*lead, *((ridge, tolerance) for ridge in ridges)]):
        solution = minimise(examples, ridge, _ahead(found, ridge) if found else start, aim, model or kind)
        found = [*found[-1:], (ridge, solution.parameters)]
        # A new model is worth its price once the old one has cost that much: about a quarter of the products beyond the
        # least possible, as measured on several sets of features.
        spent += (solution.products - 2) / 4
        model = solution.model if spent < solution.model.cost(len(values)) and number >= len(lead) else None
        spent = 0.0 if model is None else spent
        if solution.products > MANY_PRODUCTS and Exact.worth_it(examples):
            kind = Exact
        if number >= len(lead):
            yield solution


def solve(values: Tensor | Stream, loss: Loss, ridge: Tensor, tolerance: float, start: Tensor | None = None) -> Solution:
    """The solution at one strength per problem, `ridge` [G], from a start likely to be near, or led in from a strong one."""
    if start is not None:
        found = minimise(Examples(values, loss), ridge, start, tolerance)
        if (found.gap <= tolerance * found.objective).all():
            return found
    return next(path(values, loss, ridge[None], tolerance))


def _ahead(found: Sequence[tuple[Tensor, Tensor]], ridge: Tensor) -> Tensor:
    """Where the line through the last two solutions is at `ridge`; not further than one and a half of their distance."""
    last, parameters = found[-1]
    if len(found) == 1:
        return parameters
    before, earlier = found[0]
    reach = ((ridge / last).log() / (last / before).log()).clamp(max=1.5)
    return parameters + reach[:, None].to(parameters.dtype) * (parameters - earlier)
