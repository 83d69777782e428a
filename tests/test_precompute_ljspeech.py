"""The store through the class that users import."""

from __future__ import annotations

import pytest
from small_corpus import configure, make_corpus

from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.data.store import FeatureStore
from myxtts.errors import UsageError


@pytest.fixture
def corpus(tmp_path):
    return make_corpus(tmp_path / "data", clips=40)


def open_dataset(corpus, **settings):
    return LJSpeechDataset(corpus, configure(corpus, val_split=0.2, train_split=0.8, **settings))


def test_mels_and_tokens_of_all_splits_are_made_once(corpus):
    dataset = open_dataset(corpus)
    first = dataset.precompute_mels(num_workers=2, overwrite=False)
    second = dataset.precompute_tokens(num_workers=2, overwrite=False)
    assert (first.clips, first.columns["mel"].computed, first.columns["token"].computed) == (40, 40, 40)
    assert (second.columns["mel"].computed, second.columns["token"].computed) == (0, 0)
    assert len(dataset) < 40


def test_overwrite_touches_the_column_it_is_for(corpus):
    dataset = open_dataset(corpus)
    dataset.precompute_mels()
    done = dataset.precompute_tokens(overwrite=True)
    assert (done.columns["mel"].computed, done.columns["token"].computed) == (0, 40)


def test_verify_and_fix_cache_repairs_what_is_damaged(corpus):
    dataset = open_dataset(corpus)
    version = dataset.precompute_mels().version
    assert dataset.verify_and_fix_cache(fix=True).repair is None
    data = bytearray((version / "tokens.bin").read_bytes())
    data[1] ^= 8
    (version / "tokens.bin").write_bytes(data)
    assert not dataset.verify_and_fix_cache(fix=False).examination.sound
    assert dataset.verify_and_fix_cache(fix=True).repair.columns["token"].computed == 1
    assert FeatureStore.open(version.parent).path.name == "v000002"


def test_the_performance_report_tells_mode_size_and_counts(corpus):
    report = open_dataset(corpus).get_performance_report()
    assert (report["mode"], report["clips"], report["mels_rebuilt"]) == ("precompute", 40, 40)
    again = open_dataset(corpus).get_performance_report()
    assert (again["mels_reused"], again["tokens_reused"], again["mels_rebuilt"]) == (40, 40, 0)
    assert again["store_bytes"] == report["store_bytes"] > 0


def test_runtime_mode_refuses_to_write(corpus):
    with pytest.raises(UsageError, match="runtime"):
        open_dataset(corpus, preprocessing_mode="runtime").precompute_mels()
    assert not (corpus / "cached_features").exists()


def test_other_settings_for_the_same_clips_share_what_is_prepared_until_features_change(corpus):
    dataset = open_dataset(corpus)
    prepared = dataset.prepare()
    larger = dataset.config.model_copy(update={"batch_size": 7, "num_workers": 2})
    assert dataset.prepare(config=larger) is prepared
    precise = dataset.config.model_copy(update={"mel_dtype": "float32"})
    assert dataset.prepare(config=precise).store.mel_data.dtype == "float32"
    dataset.release(precise)
    assert dataset.prepare() is prepared


def test_settings_for_other_clips_are_refused(corpus):
    dataset = open_dataset(corpus)
    with pytest.raises(ValueError, match="val_split: these choose other clips"):
        dataset.prepare(config=dataset.config.model_copy(update={"val_split": 0.1}))
