"""Has speech judged: which judges there are, and their figures for groups of clips side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from myxtts.data.store.job import NoProgress, WorkProgress
from myxtts.errors import UsageError
from myxtts.evaluation.judges.judge import Figure, Judge, Observation, Speech
from myxtts.evaluation.judges.naturalness import DNSMOSJudge
from myxtts.evaluation.judges.recogniser import MoonshineRecogniser
from myxtts.evaluation.judges.similarity import SimilarityJudge
from myxtts.evaluation.judges.workers import Observations, Task, listen
from myxtts.hardware import usable_cpus
from myxtts.text.languages import canonical_language

JUDGES: tuple[type[Judge], ...] = (MoonshineRecogniser, DNSMOSJudge, SimilarityJudge)


@dataclass(frozen=True)
class Judgement:
    """What the judges say of a group of clips.

    Attributes:
        clips: how many there are.
        judged: by judge, how many of them it judged.
        figures: by name; None where it could not be measured.
        per_clip: for every clip, the plain values that were observed (`heard`, `word_errors`, `dnsmos_ovrl`, …).
    """

    clips: int
    judged: Mapping[str, int]
    figures: Mapping[str, float | None]
    per_clip: tuple[Mapping[str, Any], ...] = field(repr=False, default=())

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without those of single clips."""
        figures = {name: None if value is None else round(value, 4) for name, value in self.figures.items()}
        return {"clips": self.clips, **figures}


@dataclass(frozen=True)
class Judgements:
    """Groups of clips side by side.

    Attributes:
        columns: the figures that were asked for.
        groups: by name.
        notes: what a reader should know, a line each: judges that are missing, clips that do not count.
    """

    columns: tuple[Figure, ...]
    groups: Mapping[str, Judgement]
    notes: tuple[str, ...] = ()

    def table(self, titles: Mapping[str, str] | None = None) -> tuple[list[str], list[list[str]]]:
        """For people: the head, and a row for each group, under its name or the title that is given for it."""
        names = titles or {}
        rows = []
        for name, group in self.groups.items():
            values = [figure.text(group.figures.get(figure.name)) for figure in self.columns]
            rows.append([names.get(name, name), str(group.clips), *values])
        return ["speech", "clips", *(figure.title for figure in self.columns)], rows

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {name: group.to_dict() for name, group in self.groups.items()} | {"notes": list(self.notes)}


@dataclass(frozen=True)
class JudgePanel:
    """The judges of one evaluation.

    Attributes:
        judges: those that can be used.
        missing: a line for each that cannot.
    """

    judges: tuple[type[Judge], ...]
    missing: tuple[str, ...] = ()

    @classmethod
    def choose(cls, names: str | Iterable[str] | None = None, among: Sequence[type[Judge]] = JUDGES) -> JudgePanel:
        """The judges of these names.

        Args:
            names: in a sequence or separated by commas; `none` or an empty sequence: no judge; None: every judge that
                is installed.
            among: all that there are.

        Raises:
            UsageError: there is no judge of that name, or one that was named cannot be used.
        """
        known = {judge.name: judge for judge in among}
        if names is None:
            found = {name: judge.missing() for name, judge in known.items()}
            missing = tuple(f"{name}: {reason}" for name, reason in found.items() if reason is not None)
            return cls(tuple(judge for name, judge in known.items() if found[name] is None), missing)
        wanted = [name.strip() for name in (names.split(",") if isinstance(names, str) else names)]
        if wanted == ["none"]:
            return cls(())
        unknown = [name for name in wanted if name not in known]
        if unknown:
            raise UsageError(f"there is no judge '{unknown[0]}'; choose among {', '.join(known)}, or none")
        for name in wanted:
            reason = known[name].missing()
            if reason is not None:
                raise UsageError(f"judge {name}: {reason}")
        return cls(tuple(judge for name, judge in known.items() if name in wanted))

    def judge(
        self,
        groups: Mapping[str, Sequence[Speech]],
        language: str,
        recordings: Sequence[Speech] | str = (),
        *,
        workers: int | None = None,
        progress: WorkProgress | None = None,
    ) -> Judgements:
        """Has groups of clips judged.

        Args:
            groups: by the name that tables show.
            language: of clips that do not name theirs.
            recordings: of the speakers, for judges that compare with them; or the name of the group that is these.
            workers: processes; None: one for each CPU.
            progress: is told how the work goes.

        Raises:
            UsageError: a clip has no samples.
            MyXTTSError: a judge cannot load its model, or its process died.
        """
        if not self.judges:
            return Judgements((), {}, self.missing)
        compared = () if isinstance(recordings, str) else recordings
        clips = [clip for group in groups.values() for clip in group]
        tasks: list[Task] = [self._task(clip, language, self.judges) for clip in clips]
        comparing = [judge for judge in self.judges if judge.needs_recordings]
        tasks += [self._task(clip, language, comparing) for clip in compared]
        observed = self._listen(tasks, workers, progress or NoProgress())
        heard, others = dict[str, list[Observations]](), observed[len(clips) :]
        for name, group in groups.items():
            heard[name], observed = observed[: len(group)], observed[len(group) :]
        known = (groups[recordings], heard[recordings]) if isinstance(recordings, str) else (compared, others)
        judgements = {name: self._judgement(group, heard[name], *known) for name, group in groups.items()}
        columns = tuple(figure for judge in self.judges for figure in _shown(judge, judgements))
        return Judgements(columns, judgements, (*self.missing, *self._notes(tasks[: len(clips)], bool(known[0]))))

    @staticmethod
    def _task(clip: Speech, language: str, judges: Sequence[type[Judge]]) -> Task:
        if not len(clip.audio):
            raise UsageError(f"{clip.id or 'a clip'}: there is no sample to judge")
        spoken = canonical_language(clip.language or language)
        return clip, spoken, [judge.name for judge in judges if _is_for(judge, clip, spoken)]

    def _listen(self, tasks: Sequence[Task], workers: int | None, progress: WorkProgress) -> list[Observations]:
        places = [place for place, (_, _, judges) in enumerate(tasks) if judges]
        progress.stage("judging", len(places))

        def done(clip: Speech) -> None:
            progress.advance(1, len(clip.audio) / clip.rate)

        found: list[Observations] = [{} for _ in tasks]
        heard = listen(self.judges, [tasks[place] for place in places], workers or usable_cpus(), done)
        for place, observations in zip(places, heard, strict=True):
            found[place] = observations
        return found

    def _judgement(
        self,
        clips: Sequence[Speech],
        heard: Sequence[Observations],
        recordings: Sequence[Speech],
        recordings_heard: Sequence[Observations],
    ) -> Judgement:
        figures: dict[str, float | None] = {}
        judged = {}
        for judge in self.judges:
            mine = _observed(judge, clips, heard)
            judged[judge.name] = len(mine)
            others = _observed(judge, recordings, recordings_heard) if judge.needs_recordings else []
            if mine:
                figures |= judge.summarize(mine, others)
            else:
                figures |= dict.fromkeys(figure.name for figure in judge.figures)
        return Judgement(len(clips), judged, figures, tuple(_plain(one) for one in heard))

    def _notes(self, tasks: Sequence[Task], has_recordings: bool) -> list[str]:
        notes = []
        for judge in self.judges:
            if judge.needs_recordings and not has_recordings:
                notes.append(f"{judge.name}: there are no recordings to compare with")
            if judge.needs_text and any(clip.text is None for clip, _, _ in tasks):
                notes.append(f"{judge.name}: only of clips whose text is known")
            unknown = sorted({language for _, language, _ in tasks if not _knows(judge, language)})
            if unknown:
                known = ", ".join(sorted(judge.languages or ()))
                notes.append(f"{judge.name}: clips in {', '.join(unknown)} are left out, it knows only {known}")
        return notes


def judge_speech(
    clips: Iterable[Speech | tuple[Any, ...]],
    language: str = "en",
    judges: str | Iterable[str] | None = None,
    recordings: Iterable[Speech | tuple[Any, ...]] = (),
    *,
    workers: int | None = None,
    progress: WorkProgress | None = None,
) -> Judgement:
    """Has any speech judged; no checkpoint is needed.

    ```python
    audio, rate = soundfile.read("hello.wav", dtype="float32")
    judgement = judge_speech([(audio, rate, "Hello there.")], "en")
    print(judgement.figures["wer"], judgement.figures["dnsmos_ovrl"])
    ```

    Args:
        clips: `Speech`, or tuples in its order: audio, rate, text, speaker, id, language.
        language: of clips that do not name theirs.
        judges: names; None: every judge that is installed; the others give no figures.
        recordings: of the speakers, for the similarity.
        workers: processes; None: one for each CPU.
        progress: is told how the work goes.

    Raises:
        UsageError: there is no judge of that name, one that was named cannot be used, or a clip has no samples.
    """
    panel = JudgePanel.choose(judges)
    group = [Speech(*clip) for clip in clips]
    compared = [Speech(*clip) for clip in recordings]
    found = panel.judge({"clips": group}, language, compared, workers=workers, progress=progress)
    return found.groups.get("clips", Judgement(len(group), {}, {}, tuple({} for _ in group)))


def _shown(judge: type[Judge], judgements: Mapping[str, Judgement]) -> list[Figure]:
    """The figures of a judge to show. A figure that cannot exist (`nearest_speaker` with one speaker) is left out; if
    the judge could judge no clip, all of its figures are shown as missing."""
    groups = list(judgements.values())
    measured = {name for group in groups for name, value in group.figures.items() if value is not None}
    judged_none = not any(group.judged[judge.name] for group in groups)
    return [figure for figure in judge.figures if judged_none or figure.name in measured]


def _is_for(judge: type[Judge], clip: Speech, language: str) -> bool:
    return _knows(judge, language) and not (judge.needs_text and clip.text is None)


def _knows(judge: type[Judge], language: str) -> bool:
    return judge.languages is None or language.partition("-")[0] in judge.languages


def _observed(judge: type[Judge], clips: Sequence[Speech], heard: Sequence[Observations]) -> list[Observation]:
    pairs = zip(clips, heard, strict=True)
    return [Observation(one[judge.name], clip.speaker, clip.id) for clip, one in pairs if judge.name in one]


def _plain(heard: Observations) -> dict[str, Any]:
    return {
        name: value
        for values in heard.values()
        for name, value in values.items()
        if isinstance(value, str | int | float)
    }
