"""`myxtts show-config`: each effective value and where it came from."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from myxtts.cli import options
from myxtts.cli.output import emit
from myxtts.config.resolve import ResolvedConfig


def show_config(
    config: options.ConfigOption = None,
    preset: options.PresetOption = None,
    data_path: options.DataPathOption = None,
    language: options.LanguageOption = None,
    preprocessing_mode: options.ModeOption = None,
    batch_size: options.BatchSizeOption = None,
    num_workers: options.NumWorkersOption = None,
    prefetch_buffer_size: options.PrefetchOption = None,
    cache_dir: options.CacheDirOption = None,
    disable_tf_native_loading: options.DisableTFNativeOption = False,
    disable_gpu_prefetch: options.DisableGpuPrefetchOption = False,
    disable_cpu_gpu_overlap: options.DisableOverlapOption = False,
    epochs: options.EpochsOption = None,
    settings: options.SetOption = None,
    as_json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Print every effective value and where it came from.

    Command line over YAML over preset over automatic tuning over default.

    Example: myxtts show-config --config my.yaml --batch-size 16
    """
    resolved = options.load_config(
        config,
        preset,
        settings,
        disable_tf_native_loading=disable_tf_native_loading,
        disable_gpu_prefetch=disable_gpu_prefetch,
        disable_cpu_gpu_overlap=disable_cpu_gpu_overlap,
        data_path=data_path,
        language=language,
        preprocessing_mode=preprocessing_mode,
        batch_size=batch_size,
        num_workers=num_workers,
        prefetch_buffer_size=prefetch_buffer_size,
        cache_dir=cache_dir,
        epochs=epochs,
    )
    values = _effective(resolved)
    result = {key: {"value": value, "source": resolved.sources[key]} for key, (value, _) in values.items()}
    emit(result, as_json, lambda out: _render(out, resolved, values))


def _effective(resolved: ResolvedConfig) -> dict[str, tuple[object, str]]:
    """Each value, and as shown to people: what `auto` amounts to on this machine is said beside it."""
    values: dict[str, tuple[object, str]] = {}
    for section, keys in resolved.config.model_dump().items():
        for key, value in keys.items():
            values[f"{section}.{key}"] = (value, "none" if value is None else str(value))
    data = resolved.config.data
    for key, amount in (("data.num_workers", data.workers), ("data.prefetch_buffer_size", data.prefetch)):
        if values[key][0] == "auto":
            values[key] = ("auto", f"auto ({amount} here)")
    return values


def _render(out: Console, resolved: ResolvedConfig, values: dict[str, tuple[object, str]]) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("key", "value", "from"):
        table.add_column(column, overflow="fold")
    for key, (_, shown) in values.items():
        table.add_row(key, shown, resolved.sources[key])
    out.print(table, markup=False)
