"""The demo's report: a line per stage, `report.json`, and a page to look at and listen to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from myxtts.config.yaml_file import write_text
from myxtts.demo.plan import DemoSize, Folders, next_commands
from myxtts.demo.run import StageResult
from myxtts.reports.page import escape, figure, image, page, paragraph, row, section, sound, table


def stage_line(done: StageResult) -> str:
    """The outcome of a stage, and how long it took."""
    when = "done before" if done.before else f"{done.seconds:.0f} s"
    return f"{done.name:<13} {summary(done)} ({when})"


def summary(done: StageResult) -> str:
    """The outcome of a stage."""
    return _SUMMARIES[done.command[0]](done.result)


def report(size: DemoSize, stages: Sequence[StageResult], machine: Mapping[str, Any]) -> dict[str, Any]:
    """All measurements, with the most important figures on top."""
    by_name = {done.name: done for done in stages}
    # A run that had finished in an earlier, interrupted call has no times.
    performance = by_name["train"].result["performance"]
    measured = performance if performance["steps"] else {}
    voice = by_name["evaluate"].result
    figures = {
        "stall_share": measured.get("stall_share"),
        "clips_per_second": measured.get("clips_per_second"),
        "retrieval": voice["retrieval"],
        "duration_ratio": voice["duration_ratio"],
        "mcd_position": voice["mcd_position"],
        "real_time_factor": by_name["voice-en"].result["real_time_factor"],
    }
    if "voices-heard" in by_name:
        heard = by_name["voices-heard"].result
        figures |= {name: value for name, value in heard.items() if name.startswith("voice_top")}
    return {
        "size": size.name,
        "machine": dict(machine),
        "seconds": round(sum(done.seconds for done in stages), 1),
        **figures,
        "stages": {
            done.name: {"command": done.command, "seconds": round(done.seconds, 2), "result": done.result}
            for done in stages
        },
    }


def write_report(
    folders: Folders, size: DemoSize, stages: Sequence[StageResult], machine: Mapping[str, Any]
) -> dict[str, Any]:
    """Writes `report.json` and `report.html`; returns the content of `report.json`."""
    values = report(size, stages, machine)
    write_text(folders.root / "report.json", json.dumps(values, ensure_ascii=False, indent=2, default=str) + "\n")
    write_text(folders.page("report"), _page(folders, size, stages, values))
    return values


def _page(folders: Folders, size: DemoSize, stages: Sequence[StageResult], values: Mapping[str, Any]) -> str:
    diagnosis, evaluation = (folders.page(name) for name in ("diagnosis", "evaluation"))
    links = [
        f'<a href="{escape(path.name)}">{escape(text)}</a>'
        for path, text in ((diagnosis, "where the time went"), (evaluation, "every sentence, to listen to"))
        if path.exists()
    ]
    rows = [(done.name, summary(done), f"{done.seconds:.0f}") for done in stages]
    return page(
        "A voice, from nothing",
        [
            section("What it says", row(*(_sample(done) for done in stages if "output" in done.result))),
            section("What was done", table(["stage", "outcome", "seconds"], rows, numeric=[2])),
            section("More", f"<p>{' · '.join(links)}</p>"),
            section("With your own recordings", *(f"<p><code>{escape(line)}</code></p>" for line in next_commands())),
        ],
        lead=(
            f"{size.speakers} espeak-ng voice{'s' * (size.speakers > 1)}, {size.clips:,} clips, {size.steps:,} steps "
            f"of the tiny model, in {values['seconds'] / 60:.1f} minutes on {values['machine']['cpus']} CPUs."
        ),
    )


def _sample(done: StageResult) -> str:
    result = done.result
    wav, picture = Path(result["output"]), Path(result["plot"])
    name = "cloned from a few seconds of a voice it never heard" if done.command[0] == "clone-voice" else "the voice"
    parts = [
        paragraph(" ".join(result["sentences"])),
        sound(wav.read_bytes(), done.name),
        image(picture.read_bytes(), f"mel and alignment of {done.name}"),
    ]
    return figure(f"{done.name}: {name}", *parts)


def _corpus(result: Mapping[str, Any]) -> str:
    speakers = len(result["speakers"])
    return f"{result['clips']:,} clips, {result['seconds'] / 60:.0f} min, {speakers} voice{'s' * (speakers > 1)}"


def _check(result: Mapping[str, Any]) -> str:
    problems = len(result["problems"])
    return f"{result['clips']:,} clips, {problems or 'no'} problem{'s' * (problems != 1)}"


def _precompute(result: Mapping[str, Any]) -> str:
    speed = result["audio_seconds"] / result["seconds"] if result["seconds"] else 0.0
    return f"{result['clips']:,} clips in the store, computed at {speed:,.0f} × real time"


def _diagnose(result: Mapping[str, Any]) -> str:
    return f"{result['verdict']}: {100 * result['input_share']:.1f} % of step time waits for data"


def _train(result: Mapping[str, Any]) -> str:
    performance = result["performance"]
    if result["loss"] is None or not performance["steps"]:
        return f"{result['step']:,} steps, finished in an earlier call"
    return (
        f"{result['step']:,} steps, loss {result['loss']:.3f}, {performance['clips_per_second']:.0f} clips/s, "
        f"stall {100 * performance['stall_share']:.1f} %"
    )


def _evaluate(result: Mapping[str, Any]) -> str:
    found = [f"duration ratio {result['duration_ratio']:.2f}", f"MCD {result['mcd']:.1f} dB"]
    if result["retrieval"] is not None:
        found.insert(0, f"retrieval {100 * result['retrieval']:.0f} %")
    if result["voice_top1_unseen"] is not None:
        found.append(
            f"voices recognised: {100 * result['voice_top1_seen']:.0f} % of seen, "
            f"{100 * result['voice_top1_unseen']:.0f} % of unseen"
        )
    return ", ".join(found)


def _speak(result: Mapping[str, Any]) -> str:
    return (
        f"{result['output']}: {result['seconds']:.1f} s of speech, real-time factor {result['real_time_factor']:.3f}"
    )


_SUMMARIES = {
    "make-corpus": _corpus,
    "check-data": _check,
    "precompute": _precompute,
    "diagnose": _diagnose,
    "train": _train,
    "evaluate": _evaluate,
    "synthesize": _speak,
    "clone-voice": _speak,
}
