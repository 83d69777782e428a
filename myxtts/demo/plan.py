"""The demo's three sizes, and the command of each stage."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from myxtts.demo.recordings import Recordings

# What the shipped voice says before anything is trained, if it speaks the language.
GREETINGS = {
    "en": "Hello! I am the voice that comes with MyXTTS. In a few minutes you will hear another one.",
    "de": "Guten Tag! Ich bin die Stimme, die zu MyXTTS gehört. In wenigen Minuten hören Sie eine andere.",
    "fa": "سلام! من صدایی هستم که همراه MyXTTS می‌آید. چند دقیقهٔ دیگر صدای تازه‌ای را می‌شنوید.",
}
# What the trained voice says.
SENTENCES = {
    "en": "Hello! This voice was trained on this very computer, only a few minutes ago.",
    "de": "Guten Tag! Diese Stimme wurde erst vor wenigen Minuten auf diesem Rechner trainiert.",
    "fa": "سلام! این صدا همین چند دقیقه پیش روی همین رایانه آموزش دیده است.",
    "nl": "Hallo! Deze stem is nog maar een paar minuten geleden op deze computer getraind.",
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


HELD_OUT = {"train_split": 0.9, "val_split": 0.1}
SIZES = {
    size.name: size
    for size in (
        DemoSize(
            "quick", "a minute and a half", 150, 20, 6, 10, longest_sentence=65,
            # Without XLA, whose compilation would take longer than it saves.
            settings={
                **HELD_OUT, "num_buckets": 1, "batch_size": 8,
                "optimization_level": "basic", "enable_tensorboard": False,
            },
        ),
        DemoSize(
            "standard", "6 minutes", 1500, 500, 30, 30, longest_sentence=65,
            settings={**HELD_OUT, "num_buckets": 2},
        ),
        DemoSize(
            "full", "30 minutes", 6000, 2200, 40, 50, speakers=64, languages=("en", "fa"), unseen=8,
            settings={"train_split": 0.96, "val_split": 0.04, "num_buckets": 4},
        ),
    )
}  # fmt: skip


# Longer, and a voice forgets how to say what few recordings do not have (docs/human-voices.md).
_EPOCHS_OF_RECORDINGS = 33
# Recordings are longer than the sentences of a generated corpus, and their steps with a discriminator slower.
_PROMISES = {"quick": "two minutes", "standard": "10 minutes", "full": "40 minutes"}
_STEPS = {"quick": 20, "standard": 300, "full": 1500}


def for_recordings(size: DemoSize, recordings: Recordings) -> DemoSize:
    """A size of the demo with somebody's recordings in place of a generated corpus. Training begins with the shipped
    voice, as docs/human-voices.md does with few minutes of a voice."""
    batch = max(2, min(size.settings.get("batch_size", 16), recordings.training_clips // 4))
    steps = min(_STEPS[size.name], _EPOCHS_OF_RECORDINGS * recordings.training_clips // batch)
    settings = {**size.settings, **HELD_OUT, "language": recordings.language, "batch_size": batch}
    settings["learning_rate"] = 5e-4
    if size.name != "quick":
        settings["mel_adversarial_share"] = 1.0
    return replace(
        size,
        promise=_PROMISES[size.name],
        clips=recordings.clips,
        steps=steps,
        speakers=recordings.speakers,
        languages=(recordings.language,),
        unseen=0,
        longest_sentence=None,
        settings=settings,
    )


@dataclass(frozen=True)
class Stage:
    """A stage of the demo: a command of the program, whose result is JSON.

    Attributes:
        name: of the stage.
        command: without the program's name.
        to_continue: the command, if the run's folder has a checkpoint already; None: the same.
        may_find_problems: whether exit code 1 means that it did its work and found something.
    """

    name: str
    command: tuple[str, ...]
    to_continue: tuple[str, ...] | None = None
    may_find_problems: bool = False


class Folders:
    """The demo's files and folders: `root` has the report, `work` everything that belongs to one size, or to one size
    and somebody's recordings."""

    def __init__(self, root: Path, size: DemoSize, recordings: Recordings | None = None) -> None:
        self.root = root
        self.work = root / (size.name if recordings is None else f"{size.name}-{recordings.folder.resolve().name}")
        self.config = self.work / "config.yaml"
        self.sentences = self.work / "sentences.txt"
        self.corpus = self.work / "corpus" if recordings is None else recordings.folder
        self.features = None if recordings is None else self.work / "features"
        self.voices = self.work / "voices"
        self.run = self.work / "voice"
        self.samples = self.work / "samples"
        self.held_out = self.work / "held-out"
        self.report = root / "report.html"

    def page(self, name: str) -> Path:
        return self.work / f"{name}.html"


def stages(
    size: DemoSize,
    folders: Folders,
    *,
    reference: Path | None = None,
    recordings: Recordings | None = None,
    greeting: Collection[str] = ("en",),
    vocoder: str | None = None,
) -> list[Stage]:
    """The stages, in order.

    Args:
        size: of the demo.
        folders: of the demo.
        reference: a recording of a voice not trained on, for the size that clones one.
        recordings: to train on; None: a corpus is generated.
        greeting: the languages of the voice that comes with MyXTTS.
        vocoder: given to every stage that makes audio of mels; None: each chooses its own.
    """
    config = ("--config", str(folders.config))
    sounding = () if vocoder is None else (f"--vocoder={vocoder}",)
    greetings = [_greet(language, folders) for language in GREETINGS if language in greeting]
    if recordings is None:
        spoken = [*greetings, *_read_only(greeting), _generate(size, folders)]
        train = Stage("train", ("train", *config, "--resume", *sounding))
        precompute = Stage("precompute", ("precompute", *config))
    else:
        spoken = greetings
        train = Stage(
            "train",
            ("train", *config, "--init-from=starter", *sounding),
            to_continue=("train", *config, "--resume", *sounding),
        )
        # In this mode, what cannot be read is left out; `check` has said what that is.
        precompute = Stage("precompute", ("precompute", *config, "--preprocessing-mode=auto"))
    listed = [
        *spoken,
        Stage("check", ("check-data", str(folders.corpus), *config), may_find_problems=recordings is not None),
        precompute,
        Stage("diagnose", ("diagnose", *config, f"--num-batches={size.batches}", _html(folders, "diagnosis"))),
        train,
        Stage(
            "evaluate",
            (
                "evaluate",
                f"--checkpoint={folders.run}",
                f"--data-path={folders.corpus}",
                f"--sentences={size.sentences}",
                "--judges=none",
                f"--samples={folders.held_out}",
                _html(folders, "evaluation"),
                *sounding,
            ),
        ),
    ]
    spoken_in = [language for language in size.languages if language in SENTENCES]
    listed += [_speak("synthesize", language, folders, *sounding) for language in spoken_in]
    if size.unseen:
        speakers = size.speakers + size.unseen
        say = (
            "make-corpus",
            str(folders.voices),
            f"--clips={SENTENCES_PER_VOICE * speakers}",
            f"--speakers={speakers}",
        )
        listed.insert(len(spoken), Stage("voices", (*say, "--same-sentences", "--seed=1")))
        voices = ("evaluate", f"--checkpoint={folders.run}", f"--data-path={folders.voices}")
        listed.append(Stage("voices-heard", (*voices, f"--sentences={size.sentences}", "--judges=none", *sounding)))
        cloning = (f"--reference={reference}", *sounding)
        listed += [_speak("clone-voice", language, folders, *cloning) for language in size.languages]
    return listed


def _greet(language: str, folders: Folders) -> Stage:
    name = f"hello-{language}"
    output = f"--output={folders.samples / name}.wav"
    return Stage(name, ("say", GREETINGS[language], f"--language={language}", output))


def _read_only(greeting: Collection[str]) -> list[Stage]:
    """Persian, as long as the voice that comes with MyXTTS does not speak it: how it is read."""
    return [] if "fa" in greeting else [Stage("reads-fa", ("text", SENTENCES["fa"], "--language=fa"))]


def _generate(size: DemoSize, folders: Folders) -> Stage:
    languages = tuple(f"--language={language}" for language in size.languages)
    command = ("make-corpus", str(folders.corpus), f"--clips={size.clips}", f"--speakers={size.speakers}", *languages)
    if size.longest_sentence is not None:
        command = (*command, f"--text-file={folders.sentences}")
    return Stage("corpus", command)


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
