"""What is printed and drawn of the measurements."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import print_table

from loading.rows import ROWS, Row

LEVEL = 0.95  # "level with": within what repetitions of one row differ by
COLOURS = {"peer": "#8a94a6", "blocking": "#c9a24b", "ours": "#1f77b4", "limit": "#d9d9d9"}
NAMES = {
    "peer": "peers, ahead of the training thread",
    "blocking": "in the training thread",
    "ours": "ours",
    "limit": "limit",
}
MARK: dict[str, Any] = {"marker": "D", "color": "black", "markersize": 4}

Results = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Bound:
    """One promise with the figure that keeps or breaks it; `met` is None for a figure without a promise."""

    what: str
    bound: str
    figure: str
    met: bool | None


def summarise(repetitions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The median of each figure, and the lowest and highest clips/s."""
    summary: dict[str, Any] = {}
    for name in repetitions[0].keys() | repetitions[-1].keys():
        values = [one[name] for one in repetitions if one.get(name) is not None]
        if values:
            summary[name] = statistics.median(values) if isinstance(values[0], (int, float)) else values[0]
    rates = [one["clips_per_second"] for one in repetitions]
    return summary | {"lowest": min(rates), "highest": max(rates), "repetitions": len(rates)}


def print_loading(title: str, rows: Iterable[Row], results: Results) -> None:
    rows = list(rows)
    base = next((results[row.name]["clips_per_second"] for row in rows if row.name in results), None)
    lines = []
    for row in rows:
        result = results.get(row.name)
        if result is None:
            missing = row.missing()
            lines.append((row.title, f"not installed: {', '.join(missing)}" if missing else "not run", *[""] * 8))
            continue
        lines.append(
            (
                row.title,
                f"{result['clips_per_second']:,.0f}",
                f"{result['clips_per_second'] / base:.1f}",
                f"{result['lowest']:,.0f}–{result['highest']:,.0f}",
                f"{result['ms_per_batch']:.2f}",
                f"{100 * result['padding_share']:.1f}",
                f"{result['peak_anonymous_bytes'] / 1e6:,.0f}",
                f"{result['cpu_seconds_per_1000_clips']:.3f}",
                f"{result['variation']:.2f}",
            )
        )
    columns = ("", "clips/s", "ratio", "range", "ms/batch", "padding %", "peak MB", "CPU s/1,000", "std/mean")
    print_table(f"\n{title}", columns, [line[: len(columns)] for line in lines])


def print_simulated(rows: Iterable[Row], results: Results) -> None:
    found = [(row, results[row.name]["highest_rate"]) for row in rows if "highest_rate" in results.get(row.name, {})]
    if not found:
        return
    base = found[0][1]["clips_per_second"]
    print_table(
        "\nSimulated accelerator: the highest rate at which it is still 95 % busy",
        ("", "clips/s", "ratio", "ms/step", "busy %"),
        [
            (
                row.title,
                f"{rate['clips_per_second']:,.0f}",
                f"{rate['clips_per_second'] / base:.1f}",
                f"{rate['step_ms']:.2f}",
                f"{100 * rate['busy_share']:.1f}",
            )
            for row, rate in found
        ],
    )


def print_cold(cold: Results, results: Results) -> None:
    if not cold:
        return
    base = next(iter(cold.values()))["clips_per_second"]
    lines = [
        (
            ROWS[name].title,
            f"{result['clips_per_second']:,.0f}",
            f"{result['clips_per_second'] / base:.1f}",
            f"{result['lowest']:,.0f}–{result['highest']:,.0f}",
            f"{100 * result['clips_per_second'] / results[name]['clips_per_second']:.0f}",
            f"{100 * result['resident_share_before']:.1f}",
        )
        for name, result in cold.items()
    ]
    columns = ("", "clips/s", "ratio", "range", "% of warm", "cached before %")
    print_table("\nCold page cache: the first epoch", columns, lines)


def print_checks(checks: Results) -> None:
    lines = [
        (
            name,
            f"{1e3 * run['step_seconds']:g}",
            f"{run['steps']:,}",
            f"{100 * run['busy_share']:.2f}",
            f"{1e3 * run['stall_mean']:.3f}",
            f"{100 * run['variation']:.2f}",
        )
        for name, run in checks.items()
    ]
    columns = ("", "ms/step", "steps", "busy %", "stall ms", "std/mean %")
    print_table("\nSimulated accelerator, 16 clips per batch, from the store", columns, lines)


def bounds(results: Results, checks: Results) -> list[Bound]:
    """What has to be shown, where the rows for it were measured."""
    shown: list[Bound] = []

    def rate(name: str) -> float:
        return results[name]["clips_per_second"]

    def at_least(what: str, least: float | None, name: str, *others: str) -> None:
        others = tuple(other for other in others if other in results)
        if name not in results or not others:
            return
        best = max(others, key=rate)
        ratio = rate(name) / rate(best)
        against = f" (against: {ROWS[best].title})" if len(others) > 1 else ""
        if least is None:
            shown.append(Bound(what + against, "", f"{ratio:.2f} ×", None))
        else:
            shown.append(Bound(what + against, f"at least {least:g} ×", f"{ratio:.2f} ×", ratio >= least))

    at_least("float32, bucketed, against per-clip TF-native", 6, "ours-float32", "npy-tf-native")
    at_least("float32, bucketed, against the limit at one thread", 0.8, "ours-float32", "limit-float32-one-fresh")
    at_least("the same with memory that the limit keeps, too", None, "ours-float32", "limit-float32-one-kept")
    at_least("float16, bucketed, against per-clip TF-native", 10, "ours-float16", "npy-tf-native")
    for dtype in ("float32", "float16"):
        ahead = [row.name for row in ROWS.values() if row.kind == "peer" and row.dtype == dtype]
        at_least(f"{dtype}, bucketed, ahead of every peer that loads ahead", 1, f"ours-{dtype}", *ahead)
        loop = f"packed-loop-{dtype}"
        at_least(f"{dtype}, bucketed, level with the loop that blocks", LEVEL, f"ours-{dtype}", loop)
    for name, run in checks.items():
        least = 0.95 if run["step_seconds"] < 0.01 else 0.999
        busy = run["busy_share"]
        shown.append(Bound(f"busy: {name}", f"at least {100 * least:g} %", f"{100 * busy:.2f} %", busy >= least))
        if least > 0.95:
            varies = run["variation"]
            figure = f"{100 * varies:.2f} %"
            shown.append(Bound(f"std/mean of step time: {name}", "at most 5 %", figure, varies <= 0.05))
    at_least("runtime, mel on the host, against librosa", 1.5, "runtime-host", "runtime-numpy-function")
    if {"runtime-device", "runtime-numpy-function"} <= results.keys():
        ours, theirs = (
            results[name]["cpu_seconds_per_1000_clips"] for name in ("runtime-device", "runtime-numpy-function")
        )
        share = ours / theirs
        what = "runtime, device features: host CPU per clip, against librosa's"
        shown.append(Bound(what, "at most 0.1 ×", f"{share:.3f} ×", share <= 0.1))
    return shown


def print_bounds(shown: Sequence[Bound]) -> None:
    verdicts = {True: "met", False: "MISSED", None: ""}
    lines = [(one.what, one.bound, one.figure, verdicts[one.met]) for one in shown]
    print_table("\nMust show", ("", "bound", "measured", ""), lines)


def draw(path: Path, results: Results, subtitle: str) -> None:
    """Bars of clips/s; a mark on each for the simulated accelerator that it keeps 95 % busy."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    measured = [row for row in ROWS.values() if row.name in results]
    panels = [
        ("From features: clips per second", [row for row in measured if not row.runtime]),
        ("From WAV files, mels computed for every batch: clips per second", [row for row in measured if row.runtime]),
    ]
    panels = [(title, rows) for title, rows in panels if rows]
    heights = [len(rows) for _, rows in panels]
    figure, axes = pyplot.subplots(
        len(panels),
        1,
        figsize=(11, 2.2 + 0.34 * sum(heights)),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    for axis, (title, rows) in zip(axes[:, 0], panels, strict=True):
        _draw_panel(axis, title, rows, results)
    kinds = [kind for kind in NAMES if any(_kind(row) == kind for row in measured)]
    handles: list[Any] = [Patch(color=COLOURS[kind], label=NAMES[kind]) for kind in kinds]
    if any(results[row.name].get("highest_rate") for row in measured):
        handles.append(Line2D([], [], **MARK, linestyle="", label="simulated accelerator still 95 % busy"))
    figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False, fontsize=8)
    figure.supxlabel(subtitle, fontsize=7, color="#555555")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def _draw_panel(axis: Any, title: str, rows: Sequence[Row], results: Results) -> None:
    rates = [results[row.name]["clips_per_second"] for row in rows]
    places = range(len(rows))
    axis.barh(places, rates, color=[COLOURS[_kind(row)] for row in rows], height=0.72)
    for place, (row, rate) in enumerate(zip(rows, rates, strict=True)):
        axis.text(rate, place, f"  {rate:,.0f}  ({rate / rates[0]:.1f} ×)", va="center", fontsize=8)
        simulated = results[row.name].get("highest_rate")
        if simulated:
            axis.plot(simulated["clips_per_second"], place, **MARK)
    axis.set_yticks(places, [row.title for row in rows], fontsize=8)
    axis.invert_yaxis()
    axis.margins(x=0, y=0.01)
    axis.set_xlim(0, 1.2 * max(*rates, *axis.get_xlim()[1:]))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axis.set_title(title, loc="left", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)


def _kind(row: Row) -> str:
    return row.kind.removeprefix("runtime ")
