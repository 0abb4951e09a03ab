"""`zoo pairs`: a measure of every pair of models."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.app.completion import complete_measures
from zoo.app.options import (
    CHARTS,
    COMPARE,
    NUMBERS,
    TABLE,
    Inputs,
    Level,
    OptionalModels,
    Results,
    command,
    population,
)  # fmt: skip
from zoo.app.terminal import matrix_fits, note, print_table, print_text, width
from zoo.core.units import MISSING, count, estimate, interval
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from diversity import Pairwise


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
    long: Annotated[bool, typer.Option("--long", help="One row per pair of models.")] = False,
    tree: Annotated[bool, typer.Option("--tree", help="Cluster the models: add a dendrogram.")] = False,
    significance: Annotated[
        bool, typer.Option("--significance", help="Test whether accuracies differ (McNemar, Holm) instead of a measure.")
    ] = False,
    level: Level = 0.95,
) -> None:
    """Compute a measure of every pair of models, as a matrix or one row per pair.

    --tree clusters by average linkage; the distance is 1 - kappa, 1 - agreement, or the measure itself if it grows with
    diversity. --significance sorts the models by accuracy; two models without a common letter differ significantly. With
    --long it shows the difference of each pair.

    [dim]zoo pairs 'resnet8-*' --data digits:test --measure kappa -o kappa.csv[/dim]

    [dim]zoo pairs @cifar10 --measure agreement --tree -o agreement.svg[/dim]

    [dim]zoo pairs @cifar10 --significance -o differences.csv[/dim]
    """
    from diversity import MEASURES, pairwise
    from diversity.measures import title

    results.check(TABLE, NUMBERS, *(() if significance else CHARTS))
    runs = inputs.runs(models)
    table = pairwise(runs)
    if len(table.names) < 2:
        raise InputError(argument="models", expected="at least two models", found=", ".join(table.names))
    if significance:
        if tree:
            raise InputError("clusters by a measure, and there is none", argument="tree", hint="Leave out {significance}")
        _deliver_significance(table, level, long, results)
        return
    matrix = table.matrix(measure)
    dendrogram = table.tree(measure) if tree else None
    frame = table.to_frame()[["first", "second", measure]] if long else matrix.rename_axis("model").reset_index()
    heading = f"{title(measure)}, {population(runs)}"
    value: Any = frame
    if dendrogram is not None:
        value = {"measure": measure, "pairs": frame, "leaves": dendrogram.leaves, "linkage": dendrogram.linkage}

    def show() -> None:
        shown = frame if long or matrix_fits(matrix) else _extremes(matrix)
        form = MEASURES[measure].text
        formats = {str(column): form for column in shown.select_dtypes("number")}
        print_table(shown, title=None if long else heading, formats=formats)
        if shown is not frame:
            note(f"{len(matrix)} models do not fit this terminal; --long, --output or --json give all pairs")
        if dendrogram is not None:
            print_text("\n" + dendrogram.to_text(width()))

    def chart() -> Any:
        from diversity.charts import matrix_chart

        return matrix_chart(matrix, title(measure), dendrogram)

    results.deliver(value, show, table=frame, chart=chart)


def _deliver_significance(table: "Pairwise", level: float, long: bool, results: Results) -> None:
    from diversity import significance

    found = significance(table, level=level)
    models, pairs = found.by_model(), found.to_frame()

    def show_pairs() -> None:
        rows = [
            {
                "first": row["first"],
                "second": row["second"],
                "difference": f"{100 * row['difference']:.1f}",
                f"{level:.0%} CI": interval((row["low"], row["high"]), None),
                "p (Holm)": f"{row['p_holm']:.2g}",
                "significant": row["significant"],
            }
            for row in pairs.to_dict("records")
        ]
        formats = dict.fromkeys(("difference", f"{level:.0%} CI", "p (Holm)"), str)
        print_table(rows, title=f"Accuracy of the first minus that of the second, in points, {found.examples:,} examples",
                    formats=formats)  # fmt: skip

    def show() -> None:
        rows = [
            {
                "model": row["model"],
                "accuracy": estimate(row["accuracy"], (row["accuracy_low"], row["accuracy_high"])),
                "below best": MISSING if number == 0 else f"{100 * row['below_best']:.1f}",
                f"{level:.0%} CI": MISSING
                if number == 0
                else interval((row["below_best_low"], row["below_best_high"]), None),
                "p (Holm)": MISSING if number == 0 else f"{row['p_holm']:.2g}",
                "letters": row["letters"],
            }
            for number, row in enumerate(models.to_dict("records"))
        ]
        formats = {key: str for key in rows[0] if key not in ("model", "letters")}
        print_table(rows, title=f"Accuracy on {found.examples:,} examples, {level:.0%} CI in parentheses", formats=formats)
        best = found.indistinguishable_from_best
        others = (
            f"not significantly better than {count(len(best) - 1, 'other model')}" if best[1:] else "better than all others"
        )
        note(f"best: {best[0]}, {others}; McNemar's test, Holm's correction for {count(len(pairs), 'pair')}")

    results.deliver({"models": models, "pairs": pairs, "level": level}, show_pairs if long else show, table=pairs)


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
