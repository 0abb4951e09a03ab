"""`zoo.run`: outputs of models on a dataset. They are stored, completed after an interruption, and never computed twice."""

import contextlib
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.core import files
from zoo.core.progress import counted
from zoo.core.types import Precision
from zoo.datasets import Dataset, ResizeMode
from zoo.errors import ZooError, ZooWarning
from zoo.outputs.alignment import fitting
from zoo.outputs.outputs import Outputs, Runs
from zoo.outputs.store import SHARD_ROWS, RunFolder
from zoo.outputs.store.writer import retire
from zoo.runs import jobs
from zoo.runs.engines.job import Failures, Job
from zoo.runs.engines.stages import Stages
from zoo.runs.jobs import Engine, Options
from zoo.runs.resolver import MAX_LISTED
from zoo.runs.resolver import resolve as resolve

if TYPE_CHECKING:
    from zoo.models.model import Model


def run(
    models: "str | Model | Sequence[str | Model]",
    data: "str | Dataset | None" = None,
    pretrained: bool = True,
    fresh: bool = False,
    embeddings: bool | None = None,
    home: str | Path | None = None,
    batch_size: int = 64,
    precision: Precision = "float32",
    resize_mode: ResizeMode | None = None,
    engine: Engine = "local",
    device: str | Sequence[str] | None = None,
    workers: int | None = None,
    progress: bool = True,
    shard_rows: int = SHARD_ROWS,
    fold: bool = False,
    stages: Stages | None = None,
) -> Runs:
    """Return the outputs of models on a dataset; run the models that have none yet.

    Outputs that exist are used: imported under the name, shipped with the package, or stored by an earlier run
    (`zoo.runs.resolver` has the order). Those of a saved ensemble are combined from its members' if these exist. An
    interrupted run is completed. Outputs are stored by model, weights, transform, precision and dataset. Each image is
    decoded once for all models that fit into memory together. If a model fails, the others are completed before its error is
    raised.

    Args:
        models: names, patterns such as `resnet50-*`, filters, named sets, or loaded models.
        data: a dataset spec or a loaded dataset; default: the test split of the dataset whose classes the models predict.
        pretrained: whether networks get their trained weights; False gives random ones.
        fresh: whether to run the models even if outputs exist.
        embeddings: True requires embeddings, False leaves them out; None takes outputs with or without them, and computes
            embeddings when a model is run.
        home: where outputs are stored; default `ZOO_HOME`.
        batch_size: images per forward pass.
        precision: precision of the arithmetic.
        resize_mode: `evaluation`, the transform of a model's card; `transfer`, the shortest side at the network's input size
            (Kornblith et al. 2021, A.2); default: as the dataset asks.
        engine: `local` or `ray`.
        device: device or devices; default: every accelerator here, else the CPU.
        workers: processes that decode images; default: as many as the work needs.
        progress: whether to show a progress bar.
        shard_rows: examples per stored file; a killed run loses at most the files being written.
        fold: whether to fold batch normalisations into the convolutions before them, which is slightly faster on a CPU.
            Outputs agree with the original network's to within 1e-4 of the largest output, and are stored separately.
        stages: records the time of each stage of the run.

    >>> import tempfile
    >>> home = tempfile.mkdtemp()
    >>> runs = run("timm:test_resnet", data="digits:test[:8]", pretrained=False, home=home, progress=False)
    >>> runs["timm:test_resnet"].logits.shape
    (8, 1000)
    """
    request = jobs.request(
        models, data, pretrained, fresh, embeddings, home, batch_size, precision, resize_mode, engine, device, workers,
        shard_rows, fold,
    )  # fmt: skip
    choices, options = request.choices, request.options
    stages = Stages() if stages is None else stages
    found, failed = list[Outputs | RunFolder](), Failures()
    for results in jobs.groups(jobs.find(request, failed), options):
        found += [result.folder if isinstance(result, Job) else result for result in results]
        failed |= _complete([result for result in results if isinstance(result, Job)], options, progress, stages)
        results.clear()  # frees the models before others are loaded
    outputs = []
    for result in found:
        if isinstance(result, Outputs):
            outputs.append(result)
        elif result.identity.name not in failed:
            try:
                outputs.append(result.open())
                jobs.warn_of_undecodable(outputs[-1], stacklevel=3)
            except ZooError as error:
                failed[result.identity.name] = error
    if failed:
        raise _first(failed)
    optional = {choice.name for choice in choices if choice.optional and choice.open is not None}
    return Runs(fitting(outputs, optional) if optional else outputs)


def _complete(group: Sequence[Job], options: Options, progress: bool, stages: Stages) -> Failures:
    """Compute the missing shards of a group of models, then write their manifests; return the errors of failed models.

    If another process is computing any of these runs, this process starts from the other end.
    """
    failed: Failures = {}
    with contextlib.ExitStack() as stack:
        first = True
        for job in group:
            if options.fresh and job.folder.finished:
                retire(job.folder.path)
            files.make_folder(job.folder.path)
            first &= stack.enter_context(files.lock(job.folder.path))
        missing = {job.name: job.folder.missing() for job in group}
        unfinished = [job for job in group if missing[job.name]]
        if unfinished:
            shards = sorted({shard for numbers in missing.values() for shard in numbers}, reverse=not first)
            identity = unfinished[0].folder.identity
            engine = import_module(f"zoo.runs.engines.{'extraction' if options.engine == 'local' else options.engine}")
            title = f"{identity.name if len(unfinished) == 1 else f'{len(unfinished)} models'} on {identity.dataset}"
            total = sum(len(identity.rows(shard)) for shard in shards)

            def state(rate: float) -> str:
                return f"{rate:,.0f}/s, slowest stage: {stages.slowest}"

            with counted(title, total, progress, "images", state) as report:
                failed = engine.run(unfinished, shards, options.devices, report, stages)
        for job in group:
            if job.name not in failed:
                try:
                    job.folder.finish()
                except ZooError as error:
                    failed[job.name] = error
    for job in group:
        if len(group) > 1 and job.name in failed and _is_out_of_memory(failed[job.name]):
            failed.pop(job.name)
            failed |= _complete([job], options, progress, stages)
    return failed


def _first(failed: Failures) -> Exception:
    """Return the first error, after a warning about the errors of other models."""
    (_, first), *others = failed.items()
    if others:
        listed = "; ".join(f"{name}: {error}" for name, error in others[:MAX_LISTED]) + (
            "; ..." if others[MAX_LISTED:] else ""
        )
        warnings.warn(f"{len(failed)} models failed. Errors after the first: {listed}", ZooWarning, stacklevel=3)
    return first


def _is_out_of_memory(error: Exception) -> bool:
    from zoo.runs.engines.forward import is_out_of_memory

    return is_out_of_memory(error)
