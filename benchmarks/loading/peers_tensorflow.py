"""Peers on `tf.data`: a `.npy` file per clip, through Python and in graph, and TFRecords."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from loading.data import NPY_HEADER_BYTES, TFRECORD_SHARDS, BenchData
from loading.source import Source

N_MELS = 80
RECORD = {"mel": tf.io.FixedLenFeature([], tf.string), "frames": tf.io.FixedLenFeature([], tf.int64)}


def npy_through_python(data: BenchData) -> Source:
    """`np.load` in a `numpy_function`, as most training code does it."""

    def load(path: bytes) -> tuple[np.ndarray, np.int32]:
        mel = np.load(path.decode())
        return mel, np.int32(len(mel))

    def per_clip(path: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        mel, frames = tf.numpy_function(load, [path], [tf.float32, tf.int32])
        return tf.ensure_shape(mel, [None, N_MELS]), tf.ensure_shape(frames, [])

    return _padded(data, _paths(data).map(per_clip, num_parallel_calls=tf.data.AUTOTUNE))


def npy_in_graph(data: BenchData) -> Source:
    """`read_file` and `decode_raw`, what the reference documents call TF-native."""

    def per_clip(path: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        content = tf.strings.substr(tf.io.read_file(path), NPY_HEADER_BYTES, -1)
        mel = tf.reshape(tf.io.decode_raw(content, tf.float32), [-1, N_MELS])
        return mel, tf.shape(mel)[0]

    return _padded(data, _paths(data).map(per_clip, num_parallel_calls=tf.data.AUTOTUNE))


def tfrecord_clip_by_clip(data: BenchData) -> Source:
    """`parse_single_example` and `padded_batch`."""

    def per_clip(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        clip = tf.io.parse_single_example(record, RECORD)
        return tf.reshape(tf.io.decode_raw(clip["mel"], tf.float32), [-1, N_MELS]), tf.cast(clip["frames"], tf.int32)

    def shard(path: tf.Tensor) -> tf.data.Dataset:
        records = tf.data.TFRecordDataset(path, buffer_size=8 << 20).repeat()
        return records.map(per_clip, num_parallel_calls=tf.data.AUTOTUNE).padded_batch(data.batch_size)

    return _interleaved(data, shard)


def tfrecord_batch_at_once(data: BenchData) -> Source:
    """A batch of records is parsed by one `parse_example` and decoded and padded by one `decode_raw`."""

    def parse(records: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        clips = tf.io.parse_example(records, RECORD)
        frames = tf.cast(clips["frames"], tf.int32)
        mel = tf.io.decode_raw(clips["mel"], tf.float32, fixed_length=tf.reduce_max(frames) * N_MELS * 4)
        return tf.reshape(mel, [data.batch_size, -1, N_MELS]), frames

    def shard(path: tf.Tensor) -> tf.data.Dataset:
        records = tf.data.TFRecordDataset(path, buffer_size=8 << 20).repeat()
        return records.batch(data.batch_size, drop_remainder=True).map(parse, num_parallel_calls=tf.data.AUTOTUNE)

    return _interleaved(data, shard)


def write_tfrecords(data: BenchData) -> None:
    """One epoch's clips in shards, batch after batch in turn, so that shuffling and bucketing are already done."""
    store = data.store("float32")
    batches = data.clip_batches[: data.clips // data.batch_size]
    (data.path / "tfrecord").mkdir(exist_ok=True)
    for shard, path in enumerate(data.tfrecord_paths()):
        with tf.io.TFRecordWriter(path) as writer:
            for row in batches[shard::TFRECORD_SHARDS].ravel():
                mel = store.mel(int(row))
                feature = {
                    "mel": tf.train.Feature(bytes_list=tf.train.BytesList(value=[mel.tobytes()])),
                    "frames": tf.train.Feature(int64_list=tf.train.Int64List(value=[len(mel)])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def _paths(data: BenchData) -> tf.data.Dataset:
    paths = [data.npy_path(row) for row in range(data.clips)]
    order = tf.data.Dataset.from_tensor_slices(data.clip_batches.ravel()).repeat()
    table = tf.constant(paths)
    return order.map(lambda row: table[row])


def _padded(data: BenchData, clips: tf.data.Dataset) -> Source:
    batches = clips.padded_batch(data.batch_size).prefetch(tf.data.AUTOTUNE)
    return data.peer_source(iter(batches))


def _interleaved(data: BenchData, shard: object) -> Source:
    shards = tf.data.Dataset.from_tensor_slices(data.tfrecord_paths())
    batches = shards.interleave(shard, cycle_length=TFRECORD_SHARDS, num_parallel_calls=TFRECORD_SHARDS)
    return data.peer_source(iter(batches.prefetch(tf.data.AUTOTUNE)))
