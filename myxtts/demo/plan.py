"""The demo's three sizes, and the command of each stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SENTENCES = {
    "en": "Hello! This voice was trained on this very computer, only a few minutes ago.",
    "fa": "سلام! این صدا همین چند دقیقه پیش روی همین رایانه آموزش دیده است.",
}
# Every voice, seen and unseen, speaks the same sentences, so that only the voices differ.
SENTENCES_PER_VOICE = 4


@dataclass(frozen=True)
class DemoSize:
    """A size of the demo.

    Attributes:
        name: of the size, and of its folder.
        promise: how long it takes on two cores, as people read it.
        clips: number of clips to train on.
        steps: number of training steps.
        sentences: number of sentences to evaluate.
        batches: number of batches to diagnose with.
        speakers: number of voices to train on.
        languages: of the sentences.
        unseen: number of voices that are cloned, and not trained on.
        longest_sentence: in characters; None: no limit. Short sentences train faster.
        settings: configuration keys that differ from the default.
    """

    name: str
    promise: str
    clips: int
    steps: int
    sentences: int
    batches: int
    speakers: int = 1
    languages: tuple[str, ...] = ("en",)
    unseen: int = 0
    longest_sentence: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)


_ONE_VOICE = {"train_split": 0.9, "val_split": 0.1}
SIZES = {
    size.name: size
    for size in (
        DemoSize(
            "quick", "a minute and a half", 150, 20, 6, 10, longest_sentence=65,
            # Without XLA, whose compilation would take longer than it saves.
            settings={
                **_ONE_VOICE, "num_buckets": 1, "batch_size": 8,
                "optimization_level": "basic", "enable_tensorboard": False,
            },
        ),
        DemoSize(
            "standard", "6 minutes", 1500, 500, 30, 30, longest_sentence=65,
            settings={**_ONE_VOICE, "num_buckets": 2},
        ),
        DemoSize(
            "full", "30 minutes", 6000, 2200, 40, 50, speakers=64, languages=("en", "fa"), unseen=8,
            settings={"train_split": 0.96, "val_split": 0.04, "num_buckets": 4},
        ),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Stage:
    """A stage of the demo: a command of the program, whose result is JSON."""

    name: str
    command: tuple[str, ...]


class Folders:
    """The demo's files and folders: `root` has what a person looks at, `work` what the stages of one size work on."""

    def __init__(self, root: Path, work: Path) -> None:
        self.root = root
        self.work = work
        self.config = work / "config.yaml"
        self.sentences = work / "sentences.txt"
        self.corpus = work / "corpus"
        self.voices = work / "voices"
        self.run = work / "run"
        self.samples = root / "samples"

    def page(self, name: str) -> Path:
        return self.root / f"{name}.html"


def stages(size: DemoSize, folders: Folders, reference: Path | None, vocoder: str | None = None) -> list[Stage]:
    """The stages, in order. The size that clones a voice needs a `reference` recording of one not trained on. A
    `vocoder` is given to every stage that makes audio of mels; None: each chooses its own."""
    config = ("--config", str(folders.config))
    sounding = () if vocoder is None else (f"--vocoder={vocoder}",)
    languages = tuple(f"--language={language}" for language in size.languages)
    corpus = ("make-corpus", str(folders.corpus), f"--clips={size.clips}", f"--speakers={size.speakers}", *languages)
    if size.longest_sentence is not None:
        corpus = (*corpus, f"--text-file={folders.sentences}")
    listed = [
        Stage("corpus", corpus),
        Stage("check", ("check-data", str(folders.corpus), *config)),
        Stage("precompute", ("precompute", *config)),
        Stage("diagnose", ("diagnose", *config, f"--num-batches={size.batches}", _html(folders, "diagnosis"))),
        Stage("train", ("train", *config, "--resume", *sounding)),
        Stage(
            "evaluate",
            (
                "evaluate",
                f"--checkpoint={folders.run}",
                f"--data-path={folders.corpus}",
                f"--sentences={size.sentences}",
                "--judges=none",
                _html(folders, "evaluation"),
                *sounding,
            ),
        ),
    ]
    listed += [_speak("synthesize", language, folders, *sounding) for language in size.languages]
    if size.unseen:
        speakers = size.speakers + size.unseen
        say = (
            "make-corpus",
            str(folders.voices),
            f"--clips={SENTENCES_PER_VOICE * speakers}",
            f"--speakers={speakers}",
        )
        listed.insert(1, Stage("voices", (*say, "--same-sentences", "--seed=1")))
        voices = ("evaluate", f"--checkpoint={folders.run}", f"--data-path={folders.voices}")
        listed.append(Stage("voices-heard", (*voices, f"--sentences={size.sentences}", "--judges=none", *sounding)))
        cloning = (f"--reference={reference}", *sounding)
        listed += [_speak("clone-voice", language, folders, *cloning) for language in size.languages]
    return listed


def next_commands(data: str = "./data/my-voice") -> Sequence[str]:
    """The commands to train on recordings of one's own."""
    return (
        f"myxtts check-data {data}",
        f"myxtts train --data-path {data} --checkpoint-dir ./runs/my-voice",
        'myxtts synthesize --checkpoint ./runs/my-voice --text "Hello." --output hello.wav',
    )


def _speak(command: str, language: str, folders: Folders, *more: str) -> Stage:
    name = f"{'cloned' if command == 'clone-voice' else 'voice'}-{language}"
    return Stage(
        name,
        (
            command,
            f"--checkpoint={folders.run}",
            f"--language={language}",
            f"--text={SENTENCES[language]}",
            f"--output={folders.samples / name}.wav",
            f"--plot={folders.samples / name}.png",
            *more,
        ),
    )


def _html(folders: Folders, name: str) -> str:
    return f"--html={folders.page(name)}"
