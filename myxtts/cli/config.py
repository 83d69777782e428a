"""`myxtts create-config` and `myxtts show-config`: write a configuration file; print the values in effect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from myxtts.cli.options import ConfigOptions, command, write_config
from myxtts.cli.output import chosen, emit
from myxtts.config.resolve import ResolvedConfig

_KEYS = (
    "data_path", "language", "preprocessing_mode", "batch_size", "num_workers", "prefetch_buffer_size", "cache_dir",
    "config", "preset", "settings", "epochs",
)  # fmt: skip


@command(*_KEYS)
def create_config(
    given: ConfigOptions,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")] = Path("config.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """Write a configuration file with every key and its description.

    Example: myxtts create-config --preset rtx4090 --output my.yaml --batch-size 48
    """
    config = given.load().config
    write_config(config, output, overwrite=force)

    def render(out: Console) -> None:
        if not chosen.quiet:
            out.print(f"wrote {output}")

    emit({"path": str(output), "config": config.model_dump()}, render)


@command(*_KEYS, "disable_tf_native_loading", "disable_gpu_prefetch", "disable_cpu_gpu_overlap")
def show_config(given: ConfigOptions) -> None:
    """Print every configuration value in effect, and where it comes from.

    The command line wins over the YAML file, then the preset, then automatic tuning, then the default.

    Example: myxtts show-config --config my.yaml --batch-size 16
    """
    resolved = given.load()
    values = {
        f"{section}.{key}": value
        for section, keys in resolved.config.model_dump().items()
        for key, value in keys.items()
    }
    result = {key: {"value": value, "source": resolved.sources[key]} for key, value in values.items()}

    def render(out: Console) -> None:
        table = Table(box=None, pad_edge=False)
        for column in ("key", "value", "from"):
            table.add_column(column, overflow="fold")
        for key, value in values.items():
            table.add_row(key, _shown(key, value, resolved), resolved.sources[key])
        out.print(table)

    emit(result, render)


def _shown(key: str, value: object, resolved: ResolvedConfig) -> str:
    """A value as people read it; for `auto`, also what that is on this machine."""
    data = resolved.config.data
    here = {"data.num_workers": data.workers, "data.prefetch_buffer_size": data.prefetch}
    if value == "auto" and key in here:
        return f"auto ({here[key]} here)"
    return "none" if value is None else str(value)
