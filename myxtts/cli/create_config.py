"""`myxtts create-config`: a complete, commented configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from myxtts.cli import options
from myxtts.cli.output import emit


def create_config(
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("config.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    config: options.ConfigOption = None,
    preset: options.PresetOption = None,
    data_path: options.DataPathOption = None,
    language: options.LanguageOption = None,
    preprocessing_mode: options.ModeOption = None,
    batch_size: options.BatchSizeOption = None,
    num_workers: options.NumWorkersOption = None,
    prefetch_buffer_size: options.PrefetchOption = None,
    cache_dir: options.CacheDirOption = None,
    epochs: options.EpochsOption = None,
    settings: options.SetOption = None,
    as_json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Write a configuration file with every key and what it means.

    Example: myxtts create-config --preset rtx4090 --output my.yaml --batch-size 48
    """
    resolved = options.load_config(
        config,
        preset,
        settings,
        data_path=data_path,
        language=language,
        preprocessing_mode=preprocessing_mode,
        batch_size=batch_size,
        num_workers=num_workers,
        prefetch_buffer_size=prefetch_buffer_size,
        cache_dir=cache_dir,
        epochs=epochs,
    )
    options.write_config(resolved.config, output, overwrite=force)
    result = {"path": str(output), "config": resolved.config.model_dump()}
    emit(result, as_json, lambda out: None if quiet else out.print(f"wrote {output}", markup=False))
