"""`myxtts train`: train a voice from a data set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn

from myxtts.cli import output
from myxtts.cli.machine_config import MachineConfig, batch_text, resolve_for_machine
from myxtts.cli.options import (
    ConfigOptions,
    VocoderOption,
    command,
    config_option,
    data_option,
    run_option,
    write_config,
)
from myxtts.cli.output import PRIVATE_NETWORK, StageProgress, console, emit, say
from myxtts.config.config import DataConfig, TrainingConfig, XTTSConfig
from myxtts.config.resolve import ResolvedConfig
from myxtts.data.clips.layouts.lists import DEFAULT_METADATA_FILE
from myxtts.errors import UsageError
from myxtts.training.cluster import LOST_TIMEOUT, Cluster, find_cluster
from myxtts.training.interruption import exit_code
from myxtts.training.launcher import START_TIMEOUT, run_ranks
from myxtts.training.run_folder import CONFIG, RunFolder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from myxtts.models.checkpoint import Checkpoint
    from myxtts.training.progress import TrainingProgress


@command()
def train(
    given: ConfigOptions,
    train_data: Annotated[
        Path | None, data_option(help="Folder or metadata file of a separate training set.")
    ] = None,
    val_data: Annotated[Path | None, data_option(help="Folder or metadata file of its validation set.")] = None,
    auto_batch: Annotated[
        bool, data_option("--auto-batch", help="Find the largest batches that fit into memory.")
    ] = False,
    save_config: Annotated[Path | None, config_option(help="Write the configuration in effect to this file.")] = None,
    resume: Annotated[bool, run_option("--resume", help="Continue the run in the checkpoint folder.")] = False,
    init_from: Annotated[
        Path | None,
        run_option(help="Start with the weights of this checkpoint; `starter` is the shipped voice."),
    ] = None,
    vocoder: VocoderOption = "auto",
    devices: Annotated[
        int, run_option(help="Processes that train together on this machine, each on its own GPU; docs/scaling.md.")
    ] = 1,
    cluster: Annotated[
        str | None,
        run_option(help="Train on several machines: their hosts, separated by commas, or tf-config, or slurm."),
    ] = None,
    start_timeout: Annotated[
        float, run_option(help="Seconds in which all processes that train together must have come.")
    ] = START_TIMEOUT,
    lost_timeout: Annotated[
        float, run_option(min=1, help="Seconds of silence after which one of these processes counts as lost.")
    ] = LOST_TIMEOUT,
    data_service: Annotated[
        str | None,
        data_option(
            metavar="HOST:PORT,…", help="Loaders on other machines (serve-data), with --preprocessing-mode runtime."
        ),
    ] = None,
) -> None:
    """Train a voice. Without a configuration, settings are chosen for this machine.

    Ctrl-C or SIGTERM finishes the step, saves, and exits with 130 or 143; `--resume` continues. A second Ctrl-C stops
    at once.

    Example: myxtts train --data-path ./data/ljspeech --checkpoint-dir ./runs/voice
    """
    sets = _separate_sets(given.data_path, train_data, val_data)
    if resume and init_from is not None:
        raise UsageError("--resume continues a run with its own weights; --init-from starts one with others")
    if resume and given.config is None and given.preset is None:
        given = replace(given, config=config_of_run(given.checkpoint_dir))

    together = None
    if devices != 1 or cluster is not None:
        together = replace(find_cluster(devices, cluster), lost_timeout=lost_timeout)
    initial: Checkpoint | None = None

    def check(resolved: XTTSConfig) -> None:
        nonlocal initial
        from myxtts.audio.mel import MelSettings
        from myxtts.inference.vocoder import find_vocoder
        from myxtts.models.checkpoint import read_checkpoint

        find_vocoder(vocoder, MelSettings.from_config(resolved.data))
        RunFolder(resolved.training.checkpoint_dir).require_free(resume)
        if init_from is not None:
            initial = read_checkpoint(init_from)

    if data_service is not None:
        sets["data_service"] = [address.strip() for address in data_service.split(",")]
    resolved = resolve_for_machine(given, check, **sets)
    say(f"layout {resolved.dataset.metadata.layout}")
    say(_choice(resolved))
    if loaders := resolved.config.data.data_service:
        say(f"batches are loaded by {', '.join(loaders)}: {PRIVATE_NETWORK}")
    if auto_batch:
        _choose_batches(resolved, resume, 1 if together is None else len(together.addresses))
    if save_config is not None:
        write_config(resolved.config, save_config, overwrite=True)
    if together is None:
        _run(resolved, resume, initial, vocoder)
    else:
        _run_together(resolved, together, resume, init_from, vocoder, start_timeout)


def _choose_batches(resolved: MachineConfig, resume: bool, processes: int = 1) -> None:
    """Sets the largest batches that fit into the memory of all processes. A run that is resumed keeps its own."""
    from myxtts.training.auto_batch import find_frame_budget

    if resume and RunFolder(resolved.config.training.checkpoint_dir).checkpoints():
        return
    with StageProgress() as progress:
        trial = find_frame_budget(resolved.config, progress, resolved.dataset)
    budget = trial.budget * processes
    say(f"max_frames_per_batch is {budget:,}")
    resolved.config.data.max_frames_per_batch = budget


def _run_together(
    resolved: MachineConfig,
    cluster: Cluster,
    resume: bool,
    init_from: Path | None,
    vocoder: str,
    start_timeout: float,
) -> None:
    from myxtts.training.device import usable_gpus

    config, here = resolved.config, len(cluster.here)
    gpus = usable_gpus(config.training.device)
    if gpus and here > len(gpus):
        raise UsageError(f"--devices {here}, but TensorFlow can use {len(gpus)} GPUs here")
    on_cpu = "" if gpus else " on CPUs, since TensorFlow can use no GPU here"
    ports = ", ".join(cluster.addresses[number].rpartition(":")[2] for number in cluster.here)
    say(
        f"{len(cluster.addresses)} processes train together{on_cpu}\n"
        f"TensorFlow listens on every network of this machine, without a password (ports {ports}): "
        "private network only"
    )
    in_parts = False
    if config.data.preprocessing_mode != "runtime":
        # Once, before there are several processes that would wait for each other to do it.
        with StageProgress() as progress:
            prepared = resolved.dataset.prepare(progress, config)
        in_parts = config.data.in_parts and prepared.store is not None
        resolved.dataset.release(config)
    folder = Path(config.training.checkpoint_dir)
    folder.mkdir(parents=True, exist_ok=True)
    task = {
        "config": config.model_dump(mode="json"),
        "resume": resume,
        "init_from": None if init_from is None else str(init_from),
        "vocoder": vocoder,
        # The store is up to date now: no rank needs to read the metadata of millions of clips.
        "trust_store": in_parts,
        "quiet": output.chosen.quiet,
    }
    told = run_ranks("myxtts.cli.train_rank", cluster, task, folder, start_timeout)
    if told["result"] is not None:
        emit(told["result"], lambda out: None)
    if told["signal"] is not None:
        raise typer.Exit(exit_code(told["signal"]))


def _run(resolved: MachineConfig, resume: bool, init_from: Checkpoint | None, vocoder: str = "auto") -> None:
    from myxtts.audio.mel import MelSettings
    from myxtts.inference.vocoder import vocoder_when_needed
    from myxtts.training.trainer import XTTSTrainer

    config = resolved.config
    with TrainingDisplay() as display:
        trainer = XTTSTrainer(config, resume=resume, init_from=init_from, observer=display)
        # Only now: the trainer sets up the device, and that is too late once something has run on it.
        run = Path(config.training.checkpoint_dir)
        trainer.vocoder = vocoder_when_needed(vocoder, MelSettings.from_config(config.data), run)
        with StageProgress() as progress:
            datasets = trainer.prepare_datasets(progress, resolved.dataset)
        result = trainer.train(*datasets)
    emit(result.to_dict(), lambda out: None)
    if result.signal is not None:
        raise typer.Exit(exit_code(result.signal))


def _separate_sets(
    data_path: Sequence[Path] | None, train_data: Path | None, val_data: Path | None
) -> dict[str, Any]:
    """The configuration keys of separate training and validation sets, if they are given."""
    if train_data is None and val_data is None:
        return {}
    if data_path:
        raise UsageError("give either --data-path, or --train-data and --val-data")
    if train_data is None or val_data is None:
        raise UsageError("--train-data and --val-data belong together; --data-path splits one data set")
    train_file, train_wavs = _metadata_and_audio(train_data)
    val_file, val_wavs = _metadata_and_audio(val_data)
    return {
        "data_path": train_file if train_file.is_dir() else train_file.parent,
        "metadata_train_file": train_file,
        "wavs_train_dir": train_wavs,
        "metadata_eval_file": val_file,
        "wavs_eval_dir": val_wavs,
    }


def _metadata_and_audio(given: Path) -> tuple[Path, Path]:
    """A set's metadata file and audio folder, from its folder or its metadata file. Where the layout of the folder is
    still to be recognised, the folder stands for the file."""
    if given.is_dir() and not (given / DEFAULT_METADATA_FILE).is_file():
        return given.absolute(), given.absolute() / DataConfig().wavs_dir
    is_folder = given.is_dir() or not given.suffix
    file = (given / DEFAULT_METADATA_FILE if is_folder else given).absolute()
    return file, file.parent / DataConfig().wavs_dir


def config_of_run(checkpoint_dir: Path | None) -> Path | None:
    """The configuration file that a run in this folder has written."""
    path = (checkpoint_dir or Path(TrainingConfig().checkpoint_dir)) / CONFIG
    return path if path.is_file() else None


def _choice(resolved: ResolvedConfig) -> str:
    """The most important settings in one line."""
    model, data, training = resolved.config.model, resolved.config.data, resolved.config.training
    automatic = [source for source in resolved.sources.values() if source.startswith("automatic")]
    origin = f"{automatic[0]}: " if automatic else ""
    return (
        f"{origin}model {model.size}, batches of {batch_text(resolved.config)}, {data.workers} workers, "
        f"{data.prefetch} batches ahead, mode {data.preprocessing_mode}, level {training.optimization_level}"
    )


class TrainingDisplay:
    """Shows a run on standard error: a progress line, or if that is no terminal, a line per reading of the losses."""

    def __init__(self) -> None:
        self._bar = Progress(
            BarColumn(bar_width=20),
            TextColumn("{task.description}", markup=False),
            console=console,
            transient=True,
            disable=not console.is_interactive,
            refresh_per_second=4,
        )
        self._task = self._bar.add_task("", visible=False)

    def __enter__(self) -> TrainingDisplay:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def compiling(self, shape: Sequence[int], number: int, expected: int | None, beside: bool) -> None:
        from myxtts.training.progress import compiling_text

        say(compiling_text(shape, number, expected, beside))

    def progress(self, progress: TrainingProgress) -> None:
        self._bar.start()
        self._bar.update(
            self._task, description=str(progress), completed=progress.step, total=progress.steps, visible=True
        )

    def logged(self, progress: TrainingProgress) -> None:
        if console.is_interactive:
            self.progress(progress)
        else:
            say(str(progress))

    def validated(self, step: int, losses: Mapping[str, float], best: bool) -> None:
        from myxtts.training.progress import validation_text

        say(validation_text(step, losses, best))

    def message(self, text: str) -> None:
        say(text)
