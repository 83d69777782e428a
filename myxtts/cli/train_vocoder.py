"""`myxtts train-vocoder`: train a vocoder from a data set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from myxtts.cli.machine_config import MachineConfig, resolve_for_machine
from myxtts.cli.options import ConfigOptions, command, run_option
from myxtts.cli.output import StageProgress, emit, say
from myxtts.cli.train import TrainingDisplay, config_of_run
from myxtts.config.config import XTTSConfig
from myxtts.errors import UsageError

if TYPE_CHECKING:
    from myxtts.models.checkpoint import Checkpoint

# Without a length, a run is this long: about half an hour on two cores.
DEFAULT_STEPS = 5_000
SHIPPED = "shipped"
# What the texts become that a voice speaks, and the mels that it makes.
VOICE_KEYS = (
    *("text_symbols", "add_blank", "lexicons", "extra_languages"),
    *("sample_rate", "n_fft", "win_length", "hop_length", "n_mels", "mel_fmin", "mel_fmax", "log_floor"),
    *("trim_silence", "trim_db"),
)


@command()
def train_vocoder(
    given: ConfigOptions,
    from_checkpoint: Annotated[
        Path | None,
        run_option(help="Train on the mels that this voice makes of the clips, in place of the recordings' own."),
    ] = None,
    resume: Annotated[bool, run_option("--resume", help="Continue the run in the checkpoint folder.")] = False,
    init_from: Annotated[
        str | None,
        run_option(help=f"Start with the weights of this vocoder: its folder, or `{SHIPPED}` for the shipped one."),
    ] = None,
) -> None:
    """Train a vocoder, which makes sound of mels, on recordings. Their text does not matter.

    `--vocoder` of the other commands takes the run's folder; `train` and `synthesize` find it by themselves where it
    is in the folder of the voice's run, as `vocoder`.

    Example: myxtts train-vocoder --data-path ./my-voice --checkpoint-dir ./runs/my-voice/vocoder --init-from shipped
    """
    if resume and init_from is not None:
        raise UsageError("--resume continues a run with its own weights; --init-from starts one with others")
    if resume and given.config is None and given.preset is None:
        given = replace(given, config=config_of_run(given.checkpoint_dir))
    elif given.max_steps is None and given.epochs is None and given.config is None:
        given = replace(given, max_steps=DEFAULT_STEPS)

    from myxtts.models.checkpoint import read_checkpoint

    voice = None if from_checkpoint is None else read_checkpoint(from_checkpoint)

    def check(resolved: XTTSConfig) -> None:
        from myxtts.training.run_folder import RunFolder

        RunFolder(resolved.training.checkpoint_dir).require_free(resume)

    resolved = resolve_for_machine(given, check, store_audio=True, **_settings_of(voice))
    _run(resolved, resume, init_from, voice)


def _settings_of(voice: Checkpoint | None) -> dict[str, Any]:
    """The settings of the voice that its mels depend on, by key."""
    if voice is None:
        return {}
    say(f"text and mel settings: those of {voice.path}")
    data = voice.config.data
    return {key: getattr(data, key) for key in VOICE_KEYS}


def _run(resolved: MachineConfig, resume: bool, init_from: str | None, voice: Checkpoint | None) -> None:
    from myxtts.models.shipped import SHIPPED_VOCODER
    from myxtts.training.aligned_mels import aligned_mels
    from myxtts.training.interruption import exit_code
    from myxtts.training.vocoder_trainer import VocoderTrainer

    config, dataset = resolved.config, resolved.dataset
    vocoder = config.vocoder
    say(
        f"vocoder {vocoder.vocoder_size}, batches of {config.data.batch_size} segments of {vocoder.segment_frames} "
        f"frames, mode {config.data.preprocessing_mode}"
    )
    with TrainingDisplay() as display:
        start = SHIPPED_VOCODER if init_from == SHIPPED else init_from
        trainer = VocoderTrainer(config, resume=resume, init_from=start, observer=display)
        with StageProgress() as progress:
            mels = None if voice is None else aligned_mels(voice, dataset, config, trainer.folder.path, say)
            datasets = trainer.prepare_datasets(progress, dataset, mels)
        result = trainer.train(*datasets)
    emit(result.to_dict(), lambda out: None)
    if result.signal is not None:
        raise typer.Exit(exit_code(result.signal))
