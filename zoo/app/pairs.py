"""`zoo pairs`: a measure of every pair of models."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.app.completion import complete_measures
from zoo.app.options import COMPARE, Inputs, OptionalModels, Results, command
from zoo.app.result_files import CHARTS, NUMBERS, TABLE
from zoo.app.terminal import note, print_table, print_text, width
from zoo.core.text import as_text
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_NUMBER_WIDTH = 6


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("pairs", rich_help_panel=COMPARE)(command(pairs))


def pairs(
    *,
    models: OptionalModels = None,
    inputs: Inputs,
    results: Results,
    measure: Annotated[
        str,
        typer.Option(
            "--measure", help="kappa, inconsistency, agreement, q, double_fault, ...", autocompletion=complete_measures
        ),
    ] = "kappa",
    long: Annotated[bool, typer.Option("--long", help="One row per pair instead of a matrix.")] = False,
    tree: Annotated[bool, typer.Option("--tree", help="Cluster the models: add a dendrogram.")] = False,
) -> None:
    """Compute a measure of every pair of models, as a matrix or one row per pair.

    --tree clusters by average linkage; the distance is 1 - kappa, 1 - agreement, or the measure itself if it grows with
    diversity.

    [dim]zoo pairs 'resnet8-*' --data digits:test --measure kappa -o kappa.csv[/dim]

    [dim]zoo pairs @cifar10 --measure agreement --tree -o agreement.svg[/dim]
    """
    from diversity import pairwise

    results.check(TABLE, NUMBERS, *CHARTS)
    table = pairwise(inputs.runs(models))
    if len(table.names) < 2:
        raise InputError(argument="models", expected="at least two models", found=", ".join(table.names))
    matrix = table.matrix(measure)
    dendrogram = table.tree(measure) if tree else None
    frame = table.to_frame()[["first", "second", measure]] if long else matrix.rename_axis("model").reset_index()
    value: Any = frame
    if dendrogram is not None:
        value = {"measure": measure, "pairs": frame, "leaves": dendrogram.leaves, "linkage": dendrogram.linkage}

    def show() -> None:
        if long or _fits(matrix):
            print_table(frame)
        else:
            print_table(_extremes(matrix))
            note(f"{len(matrix)} models do not fit this terminal; --long, --output or --json give all pairs")
        if dendrogram is not None:
            print_text("\n" + dendrogram.to_text(width()))

    def chart() -> Any:
        from diversity.charts import matrix_chart
        from diversity.measures import title

        return matrix_chart(matrix, title(measure), dendrogram)

    results.deliver(value, show, table=frame, chart=chart)


def _fits(matrix: "pd.DataFrame") -> bool:
    names = [as_text(name) for name in matrix.index]
    return max(map(len, names)) + sum(max(len(name), _NUMBER_WIDTH) + 2 for name in names) <= width()


def _extremes(matrix: "pd.DataFrame") -> "pd.DataFrame":
    """Return, for each model, the two models with which the measure is highest and lowest."""
    import numpy as np
    import pandas as pd

    values = matrix.to_numpy(float).copy()
    np.fill_diagonal(values, np.nan)
    others = pd.DataFrame(values, index=matrix.index, columns=matrix.columns)
    return pd.DataFrame(
        {
            "model": others.index,
            "highest with": [None if row.isna().all() else row.idxmax() for _, row in others.iterrows()],
            "highest": others.max(axis=1).to_numpy(),
            "lowest with": [None if row.isna().all() else row.idxmin() for _, row in others.iterrows()],
            "lowest": others.min(axis=1).to_numpy(),
        }
    )
