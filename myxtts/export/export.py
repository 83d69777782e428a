"""Exports a voice: converts its graphs, lets them speak beside the model, and writes the bundle if they agree."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from myxtts import __version__
from myxtts.audio.mel import MelSettings
from myxtts.config.config import XTTSConfig
from myxtts.export import readme, saved_model, vocoders
from myxtts.export.agreement import EXACT, QUANTIZED, Agreement, check_speech, check_voices
from myxtts.export.conversion import convert, require_packages
from myxtts.export.options import DECODER, SAVED_MODEL, ExportOptions, check_output
from myxtts.inference.checkpoint_voice import voice_of_model
from myxtts.inference.reference import reference_voice
from myxtts.inference.vocoder import find_vocoder
from myxtts.models.checkpoint import Checkpoint, copy_lexicons, load_model, new_checkpoint
from myxtts.models.graphs import speech_functions
from myxtts.models.xtts import XTTS
from myxtts.runtime.bundle import FORMAT, MANIFEST, SUFFIXES, VOICES, Bundle, open_bundle
from myxtts.runtime.graphs import GRAPHS
from myxtts.runtime.speech_model import DEFAULT_VOICE, OpenedVoice
from myxtts.text.languages import language_id

# The graph of each kind of decoder.
_DECODERS = (DECODER, "velocity")
# The configuration keys that speaking needs; no paths of the machine that trained.
_KEYS = {
    "data": (
        "language", "extra_languages", "text_symbols", "add_blank", "sample_rate", "n_fft", "win_length",
        "hop_length", "n_mels", "mel_fmin", "mel_fmax", "log_floor", "trim_silence", "trim_db", "reference_seconds",
    ),
    "model": ("size", "flow_steps"),
}  # fmt: skip


def export_voice(
    checkpoint: Checkpoint, output: Path, options: ExportOptions, say: Callable[[str], None] = lambda line: None
) -> Agreement:
    """Writes a bundle, which appears whole or not at all.

    Args:
        checkpoint: of the voice.
        output: folder to write; a bundle that is there is replaced.
        options: what to write.
        say: is told what is being done.

    Raises:
        ExportError: what was exported does not say what the model says. Nothing is written then.
        UsageError: the output or an option is wrong.
        VocoderError: the vocoder cannot be exported, or does not fit.
        AudioError: a voice's recording cannot be used.
        MissingExtraError: a package that exporting needs is not installed.
    """
    check_output(output)
    require_packages(options.runs_with)
    config = checkpoint.config
    settings = MelSettings.from_config(config.data)
    vocoder = find_vocoder(options.vocoder, settings, checkpoint.path)
    model = load_model(checkpoint)
    functions = speech_functions(model)
    voice = voice_of_model(checkpoint.path, model, functions, config)
    voices = dict(voice.voices)
    for name, recording in options.voices.items():
        voices[name] = reference_voice(voice.model, recording, config)

    with new_checkpoint(output) as folder:
        np.savez(folder / VOICES, **voices)  # type: ignore[arg-type]
        copied = copy_lexicons(config.data.lexicons, folder)
        description = {
            **_description(checkpoint, model, copied),
            "runs_with": options.runs_with,
            "graphs": list(functions),
            "quantized": [DECODER] if options.quantized else [],
            "languages": voice.languages,
            "voices": list(voices),
        }
        if options.runs_with == SAVED_MODEL:
            say("writing the SavedModel")
            description["vocoder"] = saved_model.write(folder, model, config, vocoder, settings)
            agreement = saved_model.check(folder, model, config, _ids(voice))
        else:
            suffix = SUFFIXES[options.runs_with]
            for name, function in functions.items():
                say(f"converting {name}")
                convert(function, GRAPHS[name], folder / f"{name}{suffix}", options.quantized and name in _DECODERS)
            say("converting the vocoder")
            description["vocoder"] = vocoders.write(folder, vocoder, settings, suffix)
            say("comparing with the model")
            bundle = Bundle(
                folder, config, checkpoint.settings, options.runs_with, tuple(functions), voice.languages,
                description["vocoder"],
            )  # fmt: skip
            agreement = _check(voice, bundle, options.quantized)
            vocoders.check(bundle, vocoder, settings)
        description["agreement"] = asdict(agreement)
        (folder / MANIFEST).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
        (folder / "README.md").write_text(readme.text(output.name, description), encoding="utf-8")
    return agreement


def _check(voice: OpenedVoice, bundle: Bundle, quantized: bool) -> Agreement:
    exported = open_bundle(bundle, bundle.config)
    check_voices(voice.model, exported.model, bundle.config.data.n_mels)
    bound = QUANTIZED if quantized else EXACT
    return check_speech(voice.model, exported.model, _ids(voice), voice.voices[DEFAULT_VOICE], bound)


def _ids(voice: OpenedVoice) -> list[int]:
    return [language_id(code, voice.config.data.extra_languages) for code in voice.languages]


def _description(checkpoint: Checkpoint, model: XTTS, lexicons: Mapping[str, str]) -> dict[str, Any]:
    config: XTTSConfig = checkpoint.config
    values = {key: getattr(getattr(config, section), key) for section, keys in _KEYS.items() for key in keys}
    return {
        "format": FORMAT,
        "myxtts": __version__,
        "config": {**values, "lexicons": dict(lexicons), "decoder": model.decoder_kind},
        "settings": dict(checkpoint.settings),
        "sizes": asdict(model.sizes),
        "details": dict(checkpoint.details),
    }
