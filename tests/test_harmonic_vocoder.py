"""The vocoder of our own: its source, its networks, its training, and how it speaks in chunks."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from speech_like import make_data_set, sound
from training_samples import SMALLEST as SMALLEST_VOICE
from training_samples import weights_of

from myxtts.audio.mel import MelSettings, log_mel
from myxtts.config.config import XTTSConfig
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.errors import CheckpointError, ConfigError, VocoderError
from myxtts.inference.trained_vocoder import harmonic_speaker, open_trained
from myxtts.models.checkpoint import VOCODER, Checkpoint, load_model, read_checkpoint, save_checkpoint
from myxtts.models.harmonic_definition import CLASSES, NOISE_FRAMES, SCORE_CHANGE, noise_spectra, phase_of_pitch
from myxtts.models.harmonic_source import Source, pulses, source_of_audio
from myxtts.models.harmonic_vocoder import VOCODER_SIZES, HarmonicVocoder, VocoderSizes
from myxtts.models.pitch import best_path, pitch_of_audio, pitch_targets, predicted_pitch
from myxtts.models.xtts import XTTS
from myxtts.runtime import harmonic_speaker as harmonic_speaker_file
from myxtts.text.languages import LANGUAGES
from myxtts.text.symbols import SYMBOLS
from myxtts.training import aligned_mels as aligned_mels_file
from myxtts.training import vocoder_objective, vocoder_trainer
from myxtts.training.aligned_mels import aligned_mels
from myxtts.training.run_folder import RunFolder
from myxtts.training.training_state import TrainingState
from myxtts.training.vocoder_objective import ADVERSARIAL, VocoderInTraining, VocoderObjective
from myxtts.training.vocoder_trainer import VocoderTrainer

SETTINGS = MelSettings()
SMALLEST = VocoderSizes(width=8, blocks=1, pitch_width=8, pitch_blocks=1)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VOCODER_SIZES, "tiny", SMALLEST)
    monkeypatch.setattr(vocoder_objective, "SPECTROGRAMS", ((512, 128),))
    monkeypatch.setattr(vocoder_trainer, "VALIDATION_FRAMES", 16)
    monkeypatch.setattr(vocoder_trainer, "VALIDATION_SEGMENTS", 2)


def small_vocoder(**options: Any) -> HarmonicVocoder:
    """With weights that all matter: new networks end in zeros."""
    tf.keras.utils.set_random_seed(1)
    model = HarmonicVocoder(SMALLEST, SETTINGS, **options)
    model.set_weights(
        [weight + 0.02 * np.random.default_rng(0).standard_normal(weight.shape) for weight in model.get_weights()]
    )
    return model


def tone(pitch: float, frames: int = 40, overtones: int = 10) -> np.ndarray:
    time = np.arange(frames * SETTINGS.hop_length) / SETTINGS.sample_rate
    waves = np.sum([np.cos(2 * np.pi * k * pitch * time) / k for k in range(1, overtones + 1)], axis=0)
    return (0.1 * waves).astype(np.float32)


@pytest.mark.parametrize("pitch", [60.0, 97.3, 210.0, 333.3, 500.0])
def test_the_pitch_of_a_tone_is_found(pitch: float) -> None:
    found, voiced = pitch_of_audio(tf.constant(tone(pitch)[None]), SETTINGS.sample_rate, SETTINGS.hop_length)
    inner = slice(3, -3)
    assert np.allclose(found[0, inner], pitch, rtol=2e-3)
    assert np.all(voiced[0, inner].numpy() == 1)


def test_noise_and_silence_are_not_voiced() -> None:
    noise = 0.1 * np.random.default_rng(0).standard_normal((1, 40 * SETTINGS.hop_length)).astype(np.float32)
    for audio in (noise, np.zeros_like(noise)):
        _, voiced = pitch_of_audio(tf.constant(audio), SETTINGS.sample_rate, SETTINGS.hop_length)
        assert np.mean(voiced) < 0.1


def test_targets_of_a_pitch_give_the_pitch_again() -> None:
    pitch = np.geomspace(60, 500, 50, dtype=np.float32)[None]
    found = predicted_pitch(tf.math.log(pitch_targets(tf.constant(pitch)) + 1e-9))
    assert np.allclose(found, pitch, rtol=2e-3)


def test_the_speaker_finds_the_path_that_training_finds() -> None:
    scores = np.cumsum(np.random.default_rng(3).normal(0, 0.5, (200, CLASSES)), axis=1).astype(np.float32)
    expected = best_path(tf.constant(scores[None]), SCORE_CHANGE)[0]
    assert 10 < np.count_nonzero(np.diff(expected)) < 190
    np.testing.assert_array_equal(harmonic_speaker_file.best_path(scores), expected)


def test_pulses_have_the_pitch_and_no_more_than_half_the_sample_rate() -> None:
    frames = 64
    pitch = np.full((1, frames), 220.0, np.float32)
    phase = phase_of_pitch(pitch[0], SETTINGS)[None]
    train = pulses(Source(*(tf.constant(one) for one in (pitch, np.ones_like(pitch), phase))), SETTINGS)[0].numpy()
    assert len(train) == (frames - 1) * SETTINGS.hop_length + SETTINGS.n_fft
    spectrum = np.abs(np.fft.rfft(train * np.hanning(len(train))))
    hertz = np.arange(len(spectrum)) * SETTINGS.sample_rate / len(train)
    for harmonic in (1, 7, 49):
        near = np.abs(hertz - 220 * harmonic) < 100
        assert abs(hertz[near][np.argmax(spectrum[near])] - 220 * harmonic) < 3
    between = np.abs((hertz + 110) % 220 - 110) > 60
    assert spectrum[between].max() < 1e-2 * spectrum.max()


def test_pulses_lie_where_the_recording_has_them() -> None:
    audio = tone(180.0, frames=30)
    source = source_of_audio(tf.constant(audio[None]), SETTINGS)
    before = SETTINGS.padding
    train = pulses(source, SETTINGS)[0, before : before + len(audio)].numpy()
    middle = slice(4 * SETTINGS.hop_length, -4 * SETTINGS.hop_length)
    correlation = np.corrcoef(audio[middle], np.convolve(train, np.hanning(25), "same")[middle])[0, 1]
    assert correlation > 0.8


def test_a_phase_stays_exact_over_an_hour() -> None:
    pitch = np.full(300_000, 100.3, np.float32)
    cycles = np.float64(np.float32(100.3)) * SETTINGS.hop_length / SETTINGS.sample_rate * 299_999
    assert abs(phase_of_pitch(pitch, SETTINGS)[-1] - 2 * np.pi * (cycles % 1)) < 1e-3


def test_noise_has_power_1_in_every_bin() -> None:
    power = np.mean(np.abs(noise_spectra(SETTINGS)) ** 2, axis=0)
    assert noise_spectra(SETTINGS).shape == (NOISE_FRAMES, SETTINGS.n_fft // 2 + 1)
    assert 0.9 < power[5:-5].mean() < 1.1


@pytest.mark.parametrize("frames", [1, 2, 3, 50, 700])
def test_sound_has_a_hop_for_each_frame(frames: int) -> None:
    mel = np.full((frames, SETTINGS.n_mels), -4, np.float32)
    assert len(harmonic_speaker("small", small_vocoder())(mel)) == frames * SETTINGS.hop_length


def test_chunks_give_the_samples_of_the_whole() -> None:
    speaker = harmonic_speaker("small", small_vocoder())
    mel = log_mel(np.tile(sound(3, 2.0), 4), SETTINGS)
    whole = speaker.vocode(mel)
    assert np.abs(whole).max() > 1e-3
    for size in (1, 7, 48, 512):
        assert np.abs(np.concatenate(list(speaker.stream(mel, size))) - whole).max() < 1e-5


def test_no_mel_is_no_sound() -> None:
    speaker = harmonic_speaker("small", small_vocoder())
    assert len(speaker(np.zeros((0, SETTINGS.n_mels), np.float32))) == 0


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_sounds_alike(policy: str) -> None:
    mel = tf.constant(log_mel(sound(1, 1.0), SETTINGS)[None])
    exact, half = small_vocoder(), small_vocoder(dtype=policy)
    pitch, voiced = exact.track(mel)
    source = Source(pitch, voiced, tf.zeros_like(pitch))
    first = tf.zeros([1], tf.int32)
    reference, found = (model.sound(mel, source, first).numpy() for model in (exact, half))
    assert np.sqrt(np.mean((reference - found) ** 2)) < 0.05 * np.sqrt(np.mean(reference**2))


def test_other_mel_settings_work() -> None:
    settings = MelSettings(sample_rate=16000, n_fft=800, win_length=800, hop_length=200, n_mels=40, fmax=7600.0)
    model = HarmonicVocoder(SMALLEST, settings)
    speaker = harmonic_speaker("small", model)
    mel = log_mel(sound(1, 1.0, 16000), settings)
    assert len(speaker(mel)) == len(mel) * 200


def objective(**changes: Any) -> VocoderObjective:
    config = XTTSConfig(**{"adversarial_share": 0.5, **changes})
    tf.keras.utils.set_random_seed(1)
    return VocoderObjective(VocoderInTraining(config.vocoder, SETTINGS), config, total_steps=10)


def segments(frames: int = 24) -> dict[str, tf.Tensor]:
    audio = np.stack([sound(seed, 2.0)[: frames * SETTINGS.hop_length] for seed in (1, 2)])
    return {
        "mel": tf.constant(np.stack([log_mel(one, SETTINGS) for one in audio])),
        "audio": tf.constant((audio * 32767).astype(np.int16)),
        "mel_lengths": tf.fill([2], frames),
    }


def test_the_last_share_of_the_steps_is_adversarial() -> None:
    assert [objective().phase(step) for step in (0, 4, 5, 9)] == [0, 0, ADVERSARIAL, ADVERSARIAL]
    assert objective(adversarial_share=0).phase(9) == 0


def test_discriminators_are_moved_by_their_own_loss_only() -> None:
    one = objective()
    one.enter(ADVERSARIAL)
    found = one(segments(), tf.constant([1, 2]), training=True)
    assert tuple(found.losses) == one.names
    assert all(np.isfinite(value) for value in found.losses.values())
    (total, vocoder), (wrong, judges) = found.minimised
    assert {id(weight) for weight in vocoder}.isdisjoint(id(weight) for weight in judges)
    assert len(vocoder) + len(judges) == len(one.model.trainable_variables)
    assert float(total) == pytest.approx(float(sum(list(found.losses.values())[1:-1])))
    assert float(wrong) == pytest.approx(float(found.losses["discriminator"]))


def test_every_weight_of_the_vocoder_is_trained() -> None:
    one = objective()
    one.model.vocoder.set_weights(small_vocoder().get_weights())
    with tf.GradientTape() as tape:
        found = one(segments(), tf.constant([1, 2]), training=True)
    for weight, gradient in zip(
        one.model.vocoder.trainable_variables, tape.gradient(*found.minimised[0]), strict=True
    ):
        assert gradient is not None, weight.path
        assert np.isfinite(gradient).all(), weight.path
        assert np.any(gradient.numpy() != 0), weight.path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data_set(tmp_path_factory.mktemp("vocoder") / "data", [0.5 + 0.1 * (k % 5) for k in range(12)])


def configure(data: Path, run: Path, **changes: Any) -> XTTSConfig:
    """Eager steps of a small vocoder: a run takes seconds."""
    values: dict[str, Any] = {
        "data_path": str(data),
        "checkpoint_dir": str(run),
        "text_symbols": "graphemes",
        "store_audio": True,
        "batch_size": 2,
        "segment_frames": 16,
        "num_workers": 1,
        "max_steps": 4,
        "warmup_steps": 1,
        "save_every": 2,
        "validate_every": 4,
        "optimization_level": "basic",
        "enable_graph_mode": False,
        "enable_tensorboard": False,
    }
    return XTTSConfig(**(values | changes))


def train(config: XTTSConfig, **options: Any) -> VocoderTrainer:
    trainer = VocoderTrainer(config, **options)
    trainer.train(*trainer.prepare_datasets())
    return trainer


def state_of(run: Path) -> dict[str, np.ndarray]:
    return dict(TrainingState.read(RunFolder(str(run)).checkpoints()[-1]).arrays)


def test_a_run_that_is_stopped_goes_on_bit_for_bit(data: Path, tmp_path: Path) -> None:
    train(configure(data, tmp_path / "whole"))
    train(configure(data, tmp_path / "parts"))
    for path in RunFolder(str(tmp_path / "parts")).checkpoints()[-1:]:
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    (tmp_path / "parts" / "best").unlink(missing_ok=True)
    train(configure(data, tmp_path / "parts"), resume=True)
    whole, parts = state_of(tmp_path / "whole"), state_of(tmp_path / "parts")
    assert whole.keys() == parts.keys()
    for name in whole:
        np.testing.assert_array_equal(whole[name], parts[name], err_msg=name)


def test_a_trained_vocoder_speaks_and_is_not_a_voice(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    trainer = train(configure(data, run, max_steps=2, adversarial_share=0, preprocessing_mode="runtime"))
    speaker = open_trained(run, SETTINGS)
    mel = log_mel(sound(1, 1.0), SETTINGS)
    assert np.isfinite(speaker(mel)).all()
    averaged = read_checkpoint(run, VOCODER)
    assert averaged.details["step"] == 2
    with pytest.raises(CheckpointError, match="the checkpoint of a vocoder"):
        read_checkpoint(run)
    with pytest.raises(VocoderError, match="n_mels is 80 in the vocoder and 40 here"):
        open_trained(run, dataclasses.replace(SETTINGS, n_mels=40))
    # A further run starts with its weights.
    config = configure(data, tmp_path / "next", max_steps=2, adversarial_share=0)
    further = VocoderTrainer(config, init_from=run)
    further.close()
    saved = open_trained(run, SETTINGS)
    assert len(weights_of(further.model.vocoder)) == len(weights_of(trainer.model.vocoder))
    np.testing.assert_array_equal(harmonic_speaker("further", further.model.vocoder)(mel), saved(mel))


def test_a_run_begins_with_the_discriminators_of_the_vocoder_it_begins_with(data: Path, tmp_path: Path) -> None:
    trained = train(configure(data, tmp_path / "first", max_steps=2, adversarial_share=1, ema_decay=None))
    config = configure(data, tmp_path / "next", adversarial_share=1, period_discriminators=True)
    further, new = VocoderTrainer(config, init_from=tmp_path / "first"), VocoderInTraining(config.vocoder, SETTINGS)
    further.close()
    known, unknown = further.model.juries
    for found, expected in zip(known.get_weights(), trained.model.juries[0].get_weights(), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert [one.shape for one in unknown.get_weights()] == [one.shape for one in new.juries[1].get_weights()]


def test_a_run_begins_with_new_discriminators_where_a_vocoder_has_none(data: Path, tmp_path: Path) -> None:
    train(configure(data, tmp_path / "first", max_steps=2, adversarial_share=0))
    further = VocoderTrainer(configure(data, tmp_path / "next", adversarial_share=1), init_from=tmp_path / "first")
    further.close()
    saved = open_trained(tmp_path / "first", SETTINGS)
    mel = log_mel(sound(1, 1.0), SETTINGS)
    np.testing.assert_array_equal(harmonic_speaker("further", further.model.vocoder)(mel), saved(mel))


@pytest.fixture(scope="module")
def voice(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """An untrained voice for mels of 80 bands."""
    tf.keras.utils.set_random_seed(0)
    model = XTTS(SMALLEST_VOICE, len(SYMBOLS), len(LANGUAGES), SETTINGS.n_mels)
    path = tmp_path_factory.mktemp("voice") / "voice"
    save_checkpoint(path, model, XTTSConfig(text_symbols="graphemes", reference_seconds=0.2))
    return read_checkpoint(path)


def test_a_voice_gives_its_mels_in_the_timing_of_the_clips(data: Path, voice: Checkpoint, tmp_path: Path) -> None:
    config = configure(data, tmp_path / "run")
    dataset = LJSpeechDataset(None, config)
    said: list[str] = []
    store = dataset.prepare(None, config).store
    assert store is not None
    mels = aligned_mels(voice, dataset, config, tmp_path, said.append)(store)
    assert said == [f"computing the mels that {voice.path} makes of 12 clips"]
    assert mels.shape == store.mel_data.shape
    assert mels.dtype == store.mel_data.dtype
    # One clip by itself, without the padding of a batch.
    batch = next(iter(dataset.batches("val", config).dataset(shuffle=False, epochs=1)))
    row, frames, tokens = (int(batch[name][0]) for name in ("index", "mel_lengths", "token_lengths"))
    alone = {name: value[:1] for name, value in batch.items()}
    alone |= {"mel": alone["mel"][:, :frames], "tokens": alone["tokens"][:, :tokens]}
    expected = load_model(voice).speak_in_time(alone)[0]
    first = int(store.mel_offsets[row])
    np.testing.assert_allclose(mels[first : first + frames], expected, atol=0.02)
    assert np.abs(mels[first : first + frames] - store.mel_data[first : first + frames]).mean() > 0.1


def test_a_vocoder_trained_on_the_mels_of_a_voice_hears_the_same_after_resuming(
    data: Path, voice: Checkpoint, tmp_path: Path
) -> None:
    def step(resume: bool, last_step: int) -> VocoderTrainer:
        config = configure(data, tmp_path / "run", max_steps=last_step, adversarial_share=0, validate_every=100)
        trainer = VocoderTrainer(config, resume=resume)
        dataset = LJSpeechDataset(None, config)
        mels = aligned_mels(voice, dataset, config, trainer.folder.path, lambda line: None)
        trainer.train(*trainer.prepare_datasets(None, dataset, mels))
        return trainer

    step(False, 1)
    kept = (tmp_path / "run" / aligned_mels_file.FILE).stat()
    step(True, 2)
    assert (tmp_path / "run" / aligned_mels_file.FILE).stat() == kept
    assert read_checkpoint(tmp_path / "run", VOCODER).details["step"] == 2


def test_the_mels_of_a_voice_need_a_store(data: Path, voice: Checkpoint, tmp_path: Path) -> None:
    config = configure(data, tmp_path / "run", preprocessing_mode="runtime")
    trainer, dataset = VocoderTrainer(config), LJSpeechDataset(None, config)
    with pytest.raises(ConfigError, match="use preprocessing_mode 'precompute'"):
        trainer.prepare_datasets(None, dataset, aligned_mels(voice, dataset, config, tmp_path, print))


def test_a_voice_is_not_a_vocoder(tmp_path: Path) -> None:
    from training_samples import small_model

    save_checkpoint(tmp_path / "voice", small_model(), XTTSConfig(n_mels=16))
    with pytest.raises(VocoderError, match="the checkpoint of a voice"):
        open_trained(tmp_path / "voice", SETTINGS)
