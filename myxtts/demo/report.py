"""The demo's report: a line per stage, `report.json`, and a page to look at and listen to."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from myxtts.demo.plan import DemoSize, Folders
from myxtts.demo.run import StageResult
from myxtts.demo.step_picture import step_picture
from myxtts.output_folder import write_text
from myxtts.reports.page import escape, figure, image, page, paragraph, row, section, sound, table

_HELD_OUT = (
    "Sentences that the voice was not trained on, a third and two thirds of the way from the best to the worst. The "
    "sound in the middle is the recording’s own mel through the voice’s vocoder: no voice can sound better with it."
)
_NO_PERSIAN = "It speaks no Persian; myxtts demo --full trains a voice that does. This is how MyXTTS reads it:"
# With fewer, a voice that begins with nothing says no words.
_FEWEST_STEPS = 100


def stage_line(done: StageResult) -> str:
    """The outcome of a stage, and how long it took."""
    when = "done before" if done.before else f"{done.seconds:.0f} s"
    return f"{done.name:<13} {summary(done)} ({when})"


def summary(done: StageResult) -> str:
    """The outcome of a stage."""
    return _SUMMARIES[done.command[0]](done.result)


def next_steps(folders: Folders, size: DemoSize, program: str) -> dict[str, list[str]]:
    """Commands that a person may run next, by what they are for."""
    train = ["train", "--data-path", "./my-voice", "--checkpoint-dir", "./runs/my-voice"]
    listed = {"To try both voices in a browser": [["serve", str(folders.run), "starter"]]}
    if folders.features is None:
        listed["With recordings of your own"] = [["demo", "--human", "./my-voice"], train]
    else:
        train[2] = str(folders.corpus)
        listed["To train longer on these recordings"] = [[*train, f"--language={size.languages[0]}"]]
    return {purpose: [f"{program} {shlex.join(line)}" for line in lines] for purpose, lines in listed.items()}


def report(size: DemoSize, stages: Sequence[StageResult], machine: Mapping[str, Any]) -> dict[str, Any]:
    """All measurements, with the most important figures on top."""
    by_name = {done.name: done for done in stages}
    # A run that had finished in an earlier, interrupted call has no times.
    performance = by_name["train"].result["performance"]
    measured = performance if performance["steps"] else {}
    voice = by_name["evaluate"].result
    # In a language for which the demo has no sentence, the voice speaks only what was held out.
    spoken = [done.result for done in stages if done.command[0] == "synthesize"]
    figures = {
        "stall_share": measured.get("stall_share"),
        "clips_per_second": measured.get("clips_per_second"),
        "retrieval": voice["retrieval"],
        "duration_ratio": voice["duration_ratio"],
        "mcd_position": voice["mcd_position"],
        "real_time_factor": spoken[0]["real_time_factor"] if spoken else None,
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
    folders: Folders,
    size: DemoSize,
    stages: Sequence[StageResult],
    machine: Mapping[str, Any],
    program: str = "myxtts",
) -> dict[str, Any]:
    """Writes `report.json` and `report.html`; returns the content of `report.json`. `program` is how the commands on
    the page begin."""
    values = report(size, stages, machine)
    write_text(folders.root / "report.json", json.dumps(values, ensure_ascii=False, indent=2, default=str) + "\n")
    write_text(folders.report, _page(folders, size, stages, values, program))
    return values


def _page(
    folders: Folders, size: DemoSize, stages: Sequence[StageResult], values: Mapping[str, Any], program: str
) -> str:
    by_name = {done.name: done for done in stages}
    generated = "corpus" in by_name
    rows = [(done.name, summary(done), f"{done.seconds:.0f}") for done in stages]
    steps = next_steps(folders, size, program)
    whose = "espeak-ng voice" if generated else "recorded voice"
    babbles = generated and size.steps < _FEWEST_STEPS
    babbling = paragraph(f"After {size.steps} steps a voice only babbles.", note=True) if babbles else ""
    begun = "" if generated else ", begun with the voice that comes with MyXTTS"
    return page(
        "A voice, from nothing" if generated else f"A voice, from {folders.corpus.resolve().name}",
        [
            section("At once: the voice that comes with MyXTTS", *_at_once(stages)),
            section("The new voice", row(*(_sample(done) for done in stages if "plot" in done.result)), babbling),
            section(
                "Beside the recordings",
                paragraph(f"{_HELD_OUT}{' The recordings are espeak-ng’s.' if generated else ''}", note=True),
                *_beside_recordings(folders, by_name["evaluate"].result),
                _links(folders, ("evaluation", "every sentence, to listen to")),
            ),
            section(
                "Did training wait for data?",
                paragraph(f"Diagnosis: {summary(by_name['diagnose'])}."),
                paragraph(f"Training: {summary(by_name['train'])}."),
                step_picture(folders.run),
                _links(folders, ("diagnosis", "where the time goes, part by part")),
            ),
            section("What was done", table(["stage", "outcome", "seconds"], rows, numeric=[2])),
            *(
                section(purpose, *(f"<p><code>{escape(line)}</code></p>" for line in lines))
                for purpose, lines in steps.items()
            ),
        ],
        lead=(
            f"{size.speakers} {whose}{'s' * (size.speakers > 1)}, {size.clips:,} clips, {size.steps:,} steps "
            f"of the tiny model{begun}, in {values['seconds'] / 60:.1f} minutes on {values['machine']['cpus']} CPUs."
        ),
    )


def _links(folders: Folders, *pages: tuple[str, str]) -> str:
    links = [
        f'<a href="{escape(folders.page(name).relative_to(folders.root))}">{escape(text)}</a>'
        for name, text in pages
        if folders.page(name).exists()
    ]
    return f"<p>{' · '.join(links)}</p>"


def _at_once(stages: Sequence[StageResult]) -> list[str]:
    parts = []
    for done in stages:
        if done.command[0] == "say":
            wav = Path(done.result["output"]).read_bytes()
            parts.append(figure(done.name, paragraph(done.command[1]), sound(wav, done.name)))
        elif done.command[0] == "text":
            parts.append(paragraph(_NO_PERSIAN))
            parts.append(paragraph(done.result["written"]))
            parts.append(f'<p dir="ltr"><code>{escape(done.result["phonemes"])}</code></p>')
    return parts


def _beside_recordings(folders: Folders, result: Mapping[str, Any]) -> list[str]:
    """Two held-out sentences: as recorded, the recording's mel through the vocoder, and as the voice says them."""
    ranked = sorted(result["per_sentence"], key=lambda sentence: sentence["mcd"])
    parts = []
    for place in sorted({len(ranked) // 3, 2 * len(ranked) // 3}):
        sentence = ranked[place]
        name = re.sub(r"[^\w.-]", "_", sentence["id"])
        kinds = {"recording": "recording", "vocoded": "its mel through the vocoder", "generated": "the new voice"}
        files = {title: folders.held_out / f"{name}.{kind}.wav" for kind, title in kinds.items()}
        parts.append(paragraph(sentence["text"]))
        parts.append(row(*(figure(title, sound(file.read_bytes(), title)) for title, file in files.items())))
    return parts


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
    problems = result["problems"]
    found = f"{result['clips']:,} clips, {len(problems) or 'no'} problem{'s' * (len(problems) != 1)}"
    return f"{found}; the first: {_problem(problems[0])}" if problems else found


def _problem(problem: Mapping[str, Any]) -> str:
    return f"{problem['file']}:{problem['line']}: {problem['message']}"


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


def _say(result: Mapping[str, Any]) -> str:
    return f"{result['output']}: {result['seconds']:.1f} s of speech"


def _text(result: Mapping[str, Any]) -> str:
    return str(result["phonemes"])


_SUMMARIES = {
    "say": _say,
    "text": _text,
    "make-corpus": _corpus,
    "check-data": _check,
    "precompute": _precompute,
    "diagnose": _diagnose,
    "train": _train,
    "evaluate": _evaluate,
    "synthesize": _speak,
    "clone-voice": _speak,
}
