"""`myxtts train`: from a data set to a voice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from myxtts.cli import options
from myxtts.cli.machine_config import MachineConfig, batch_text, resolve_for_machine
from myxtts.cli.output import emit, say
from myxtts.cli.stage_progress import StageProgress
from myxtts.cli.training_display import TrainingDisplay
from myxtts.config.config import DataConfig, TrainingConfig, XTTSConfig
from myxtts.config.resolve import ResolvedConfig
from myxtts.data.clips.metadata import DEFAULT_METADATA_FILE
from myxtts.errors import UsageError

if TYPE_CHECKING:
    from myxtts.models.checkpoint import Checkpoint

_RUN = "Run"
_DATA = "Data"


def train(
    data_path: options.DataPathOption = None,
    config: options.ConfigOption = None,
    preset: options.PresetOption = None,
    settings: options.SetOption = None,
    save_config: Annotated[
        Path | None,
        typer.Option("--save-config", help="Write the configuration in effect.", rich_help_panel="Configuration"),
    ] = None,
    train_data: Annotated[
        Path | None,
        typer.Option("--train-data", help="Folder or metadata of a training set.", rich_help_panel=_DATA),
    ] = None,
    val_data: Annotated[
        Path | None,
        typer.Option("--val-data", help="Folder or metadata of its validation set.", rich_help_panel=_DATA),
    ] = None,
    language: options.LanguageOption = None,
    preprocessing_mode: options.ModeOption = None,
    batch_size: options.BatchSizeOption = None,
    auto_batch: Annotated[
        bool, typer.Option("--auto-batch", help="Find the largest batches that fit.", rich_help_panel=_DATA)
    ] = False,
    num_workers: options.NumWorkersOption = None,
    prefetch_buffer_size: options.PrefetchOption = None,
    cache_dir: options.CacheDirOption = None,
    disable_tf_native_loading: options.DisableTFNativeOption = False,
    disable_gpu_prefetch: options.DisableGpuPrefetchOption = False,
    disable_cpu_gpu_overlap: options.DisableOverlapOption = False,
    epochs: options.EpochsOption = None,
    max_steps: Annotated[
        int | None, typer.Option("--max-steps", help="Optimizer steps, in place of epochs.", rich_help_panel=_RUN)
    ] = None,
    checkpoint_dir: Annotated[
        Path | None,
        typer.Option("--checkpoint-dir", help="Folder of the run; default ./runs/default.", rich_help_panel=_RUN),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in that folder.", rich_help_panel=_RUN)
    ] = False,
    init_from: Annotated[
        Path | None,
        typer.Option("--init-from", help="Checkpoint to start with, e.g. another voice.", rich_help_panel=_RUN),
    ] = None,
    optimization_level: Annotated[
        str | None,
        typer.Option("--optimization-level", help="basic, enhanced or experimental.", rich_help_panel=_RUN),
    ] = None,
    device: Annotated[str | None, typer.Option("--device", help="auto, cpu or gpu.", rich_help_panel=_RUN)] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Of weights, order and noise.", rich_help_panel=_RUN)
    ] = None,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Same seed, same losses, bit for bit.", rich_help_panel=_RUN)
    ] = False,
    as_json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Train a voice; without a configuration, with what suits this machine.

    Ctrl-C or SIGTERM finishes the step, saves and ends with 130 or 143; `--resume` continues. A second Ctrl-C ends
    at once.

    Example: myxtts train --data-path ./data/ljspeech --checkpoint-dir ./runs/voice
    """
    sets = _separate_sets(data_path, train_data, val_data)
    if resume and init_from is not None:
        raise UsageError("--resume continues a run with its own weights; --init-from begins one with others")
    if resume and config is None and preset is None:
        config = _config_of_run(checkpoint_dir)
    given: dict[str, Any] = {
        "language": language,
        "preprocessing_mode": preprocessing_mode,
        "batch_size": batch_size,
        "num_workers": num_workers,
        "prefetch_buffer_size": prefetch_buffer_size,
        "cache_dir": cache_dir,
        "disable_tf_native_loading": disable_tf_native_loading,
        "disable_gpu_prefetch": disable_gpu_prefetch,
        "disable_cpu_gpu_overlap": disable_cpu_gpu_overlap,
        "epochs": epochs,
        "max_steps": max_steps,
        "checkpoint_dir": checkpoint_dir,
        "optimization_level": optimization_level,
        "device": device,
        "seed": seed,
        "deterministic": deterministic or None,
        **sets,
    }

    initial: Checkpoint | None = None

    def check(resolved: XTTSConfig) -> None:
        nonlocal initial
        from myxtts.models.checkpoint import read_checkpoint
        from myxtts.training.run_folder import RunFolder

        RunFolder(resolved.training.checkpoint_dir).require_free(resume)
        if init_from is not None:
            initial = read_checkpoint(init_from)

    resolved = resolve_for_machine(config, preset, settings, check, **given)
    _run(resolved, resume, initial, auto_batch, save_config, as_json)


def _run(
    resolved: MachineConfig,
    resume: bool,
    init_from: Checkpoint | None,
    auto_batch: bool,
    save_config: Path | None,
    as_json: bool,
) -> None:
    from myxtts.audio.mel import MelSettings
    from myxtts.inference.griffin_lim import GriffinLim
    from myxtts.training.auto_batch import find_frame_budget
    from myxtts.training.interruption import exit_code
    from myxtts.training.run_folder import RunFolder
    from myxtts.training.trainer import XTTSTrainer

    config = resolved.config
    say(_choice(resolved))
    # A run that is under way keeps its batches.
    if auto_batch and not (resume and RunFolder(config.training.checkpoint_dir).checkpoints()):
        with StageProgress() as progress:
            trial = find_frame_budget(config, progress, resolved.dataset)
        say(f"max_frames_per_batch is {trial.budget:,}")
        config.data.max_frames_per_batch = trial.budget
    if save_config is not None:
        options.write_config(config, save_config, overwrite=True)
    with TrainingDisplay() as display:
        trainer = XTTSTrainer(config, resume=resume, init_from=init_from, observer=display)
        # Not before: the trainer sets up the device, which is too late once something runs on it.
        trainer.vocoder = GriffinLim(MelSettings.from_config(config.data))
        with StageProgress() as progress:
            datasets = trainer.prepare_datasets(progress, resolved.dataset)
        result = trainer.train(*datasets)
    emit(result.to_dict(), as_json, lambda out: None)
    if result.signal is not None:
        raise typer.Exit(exit_code(result.signal))


def _separate_sets(data_path: Path | None, train_data: Path | None, val_data: Path | None) -> dict[str, Any]:
    """The configuration keys for one data set, or for two."""
    if train_data is None and val_data is None:
        return {"data_path": data_path}
    if data_path is not None:
        raise UsageError("give either --data-path, or --train-data and --val-data")
    if train_data is None or val_data is None:
        raise UsageError("--train-data and --val-data belong together; --data-path splits one data set")
    train_file, train_wavs = _metadata_and_audio(train_data)
    val_file, val_wavs = _metadata_and_audio(val_data)
    return {
        "data_path": train_file.parent,
        "metadata_train_file": train_file,
        "wavs_train_dir": train_wavs,
        "metadata_eval_file": val_file,
        "wavs_eval_dir": val_wavs,
    }


def _metadata_and_audio(given: Path) -> tuple[Path, Path]:
    """A set's metadata file and audio folder; what was given is its folder, or the file itself."""
    is_folder = given.is_dir() or not given.suffix
    file = (given / DEFAULT_METADATA_FILE if is_folder else given).absolute()
    return file, file.parent / DataConfig().wavs_dir


def _config_of_run(checkpoint_dir: Path | None) -> Path | None:
    """The configuration that a run in this folder had."""
    from myxtts.training.run_folder import CONFIG

    path = (checkpoint_dir or Path(TrainingConfig().checkpoint_dir)) / CONFIG
    return path if path.is_file() else None


def _choice(resolved: ResolvedConfig) -> str:
    """What will be trained and how, in one line."""
    model, data, training = resolved.config.model, resolved.config.data, resolved.config.training
    automatic = [source for source in resolved.sources.values() if source.startswith("automatic")]
    origin = f"{automatic[0]}: " if automatic else ""
    return (
        f"{origin}model {model.size}, batches of {batch_text(resolved.config)}, {data.workers} workers, "
        f"{data.prefetch} batches ahead, mode {data.preprocessing_mode}, level {training.optimization_level}"
    )
