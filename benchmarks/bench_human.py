"""A voice trained on real recordings, heard by judges that others made.

    .venv/bin/python benchmarks/bench_human.py RUN DATA [--vocoder NAME=PATH …] [--other DATA …] [--sentences 40]

RUN is a checkpoint, DATA the recordings that it was trained on. The voice speaks the sentences of `sentences_en.txt`,
which are in no corpus, once with each vocoder (`auto` without `--vocoder`). Beside it are recordings that it was not
trained on, and the mels of these through the same vocoders. `--other` are data sets of other voices: the similarity
then says for how many sentences the nearest voice is the right one. The judges need the `judges` extra.

The bounds are the project's goals: a word error rate at most 3 points above the recordings', P.808 of at least 3.4
(`--bounds 10` for a voice from ten minutes: at most 10 %, and 3.2).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from common import describe_machine, parser, print_table, write_json

from myxtts import XTTSConfig, XTTSInference
from myxtts.audio.mel import MelSettings, log_mel
from myxtts.audio.reading import read_audio
from myxtts.data.clips import Clip
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.evaluation.judges import Speech
from myxtts.evaluation.judges.panel import JudgePanel
from myxtts.inference.vocoder import create_vocoder

Figures = Mapping[str, float | None]

SENTENCES = Path(__file__).with_name("sentences_en.txt")
RECORDING = "recordings"
VOICE = "the voice"
COMPARED = 20  # recordings of each voice that similarity compares with


def main() -> None:
    options = parser(__doc__)
    options.add_argument("run", type=Path)
    options.add_argument("data", type=Path)
    options.add_argument("--vocoder", action="append", default=[], metavar="NAME=PATH")
    options.add_argument("--other", action="append", default=[], type=Path, metavar="DATA")
    options.add_argument("--sentences", type=int, default=40)
    options.add_argument("--reference", action="store_true", help="speak in the voice of a recording")
    options.add_argument("--judges", default="wer,dnsmos,similarity")
    options.add_argument("--bounds", type=int, choices=(60, 10), default=60, help="minutes of recordings")
    options.add_argument("--keep", type=Path, metavar="DIR", help="write what was judged as WAV files")
    given = options.parse_args()
    print(describe_machine())
    vocoders = dict(one.split("=", 1) for one in given.vocoder) or {"auto": "auto"}
    settings = MelSettings()

    held_out = clips_of(given.data, given.sentences, held_out=True)
    groups = {RECORDING: [recording(clip, settings) for clip in held_out]}
    for name, choice in vocoders.items():
        vocode = create_vocoder(choice, settings)
        groups[f"recordings' mels, {name}"] = [
            clip._replace(audio=vocode(log_mel(clip.audio, settings))) for clip in groups[RECORDING]
        ]
    reference = held_out[0].audio_path if given.reference else None
    for name, choice in vocoders.items():
        groups[f"our voice, {name}"] = spoken_by(given.run, given.sentences, choice, reference)

    found = JudgePanel.choose(given.judges).judge(groups, "en", compared_with(given.data, given.other, settings))
    print_table(f"{given.run}: {given.sentences} sentences", *found.table())
    figures = {name: group.figures for name, group in found.groups.items()}
    for name, values in figures.items():
        if name.startswith("our voice"):
            print(f"{name}: {_verdict(values, figures[RECORDING], given)}")
    if given.keep:
        _keep(groups, given.keep)
    write_json(given.json, figures)


def spoken_by(run: Path, sentences: int, vocoder: str = "auto", reference: str | Path | None = None) -> list[Speech]:
    """The first sentences of `sentences_en.txt` in the voice of a checkpoint."""
    speaker = XTTSInference(run, vocoder=vocoder)
    texts = SENTENCES.read_text(encoding="utf-8").splitlines()[:sentences]
    return [
        Speech(speaker.synthesize(text, reference).audio, speaker.sample_rate, text, VOICE, f"sentence {number}")
        for number, text in enumerate(texts)
    ]


def compared_with(data: Path, others: Sequence[Path], settings: MelSettings) -> list[Speech]:
    """The recordings that similarity compares with: of the voice, and of other voices."""
    compared = [recording(clip, settings) for clip in clips_of(data, COMPARED)]
    for other in others:
        clips = clips_of(other, COMPARED)
        compared += [recording(clip, settings)._replace(speaker=other.name, text=None) for clip in clips]
    return compared


def clips_of(data: Path, most: int, held_out: bool = False) -> list[Clip]:
    """At most so many clips of a data set, spread evenly; all of it, or what is not trained on."""
    metadata = LJSpeechDataset(None, XTTSConfig(data_path=str(data))).metadata
    rows = [*metadata.rows("val"), *metadata.rows("test")] if held_out else range(len(metadata.clips))
    stride = max(1, len(rows) // most)
    return [metadata.clips[row] for row in rows[::stride][:most]]


def recording(clip: Clip, settings: MelSettings) -> Speech:
    """A clip as the judges hear it."""
    audio = read_audio(clip.audio_path, settings.sample_rate, clip.start, clip.duration)
    return Speech(audio, settings.sample_rate, clip.text, VOICE, clip.id)


def _verdict(values: Figures, recordings: Figures, given: argparse.Namespace) -> str:
    wer, p808, recorded = values.get("wer"), values.get("dnsmos_p808"), recordings.get("wer")
    if wer is None or p808 is None or recorded is None:
        return "not judged"
    most = recorded + 0.03 if given.bounds == 60 else 0.10
    least = 3.4 if given.bounds == 60 else 3.2
    return (
        f"WER {100 * wer:.1f} % (at most {100 * most:.1f}: {'kept' if wer <= most else 'MISSED'}), "
        f"P.808 {p808:.2f} (at least {least}: {'kept' if p808 >= least else 'MISSED'})"
    )


def _keep(groups: dict[str, list[Speech]], folder: Path) -> None:
    import soundfile

    for name, clips in groups.items():
        place = folder / name.replace(" ", "-").replace(",", "").replace("'", "")
        place.mkdir(parents=True, exist_ok=True)
        for number, clip in enumerate(clips):
            soundfile.write(place / f"{number:02d}.wav", clip.audio, clip.rate)


if __name__ == "__main__":
    main()
