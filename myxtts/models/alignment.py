"""Which token each mel frame belongs to: the search for it, and three forms of the result.

An *alignment* is int32 [B, F], the token of each frame, -1 beyond the clip. *Durations* are int32 [B, T], the
frames of each token. A *path* is float [B, F, T], one-hot over tokens, all zero beyond the clip: multiplying by it
carries values per token to frames. Its gradient is one matrix product, and therefore deterministic.
"""

from __future__ import annotations

import tensorflow as tf

from myxtts.models.masking import dims


def monotonic_alignment(scores: tf.Tensor, token_lengths: tf.Tensor, mel_lengths: tf.Tensor) -> tf.Tensor:
    """The alignment with the highest total score among those that visit every token once and in order.

    Exact dynamic programming, parallel over clips and tokens, sequential over frames; compiles under XLA. Of paths
    with equal totals, the one that reaches the later token first wins, so the result does not depend on the device.
    Values beyond a clip's lengths are ignored. No gradient flows through.

    Args:
        scores: [B, T, F], how well a token explains a frame, such as a log-likelihood.
        token_lengths: int32 [B].
        mel_lengths: int32 [B].

    Returns:
        int32 [B, F], the token of each frame, -1 beyond the clip. The first frame has the first token and the last
        frame the last one. If a clip has fewer frames than tokens, no such path exists: its frames are then
        spread evenly over the tokens, the ends included. A clip without tokens or frames is all -1.
    """
    # Frames first: each turn of the loops reads one contiguous slice.
    scores = tf.transpose(tf.cast(tf.stop_gradient(scores), tf.float32), [2, 0, 1])  # [F, B, T]
    frames, clips, tokens = dims(scores)
    token = tf.range(tokens)[None, :]  # [1, T]
    outside = tf.fill([clips, 1], float("-inf"))

    def advance(frame: tf.Tensor, best: tf.Tensor, moves: tf.TensorArray) -> tuple:
        # best[b, t]: highest total of a path that has token t in the frame before.
        before = tf.concat([outside, best[:, :-1]], axis=1)
        moved = before > best  # [B, T]
        return frame + 1, tf.where(moved, before, best) + scores[frame], moves.write(frame, moved)

    best = tf.where(token == 0, scores[0], float("-inf"))
    moves = tf.TensorArray(tf.bool, size=frames, element_shape=scores.shape[1:]).write(
        0, tf.zeros_like(best, tf.bool)
    )
    _, _, moves = tf.while_loop(lambda frame, *_: frame < frames, advance, [1, best, moves])
    moves = moves.stack()  # [F, B, T]

    def retreat(frame: tf.Tensor, here: tf.Tensor, path: tf.TensorArray) -> tuple:
        inside = frame < mel_lengths  # [B]
        path = path.write(frame, tf.where(inside, here, -1))
        moved = tf.reduce_any(moves[frame] & (token == here[:, None]), axis=1)
        return frame - 1, tf.where(inside & moved, here - 1, here), path

    path = tf.TensorArray(tf.int32, size=frames, element_shape=scores.shape[1:2])
    _, _, path = tf.while_loop(lambda frame, *_: frame >= 0, retreat, [frames - 1, token_lengths - 1, path])
    path = tf.transpose(path.stack())  # [B, F]

    spread = tf.range(frames)[None, :] * (token_lengths - 1)[:, None] // tf.maximum(mel_lengths - 1, 1)[:, None]
    spread = tf.where(tf.range(frames)[None, :] < mel_lengths[:, None], spread, -1)
    too_short = mel_lengths < token_lengths
    return tf.where(too_short[:, None], spread, path)


def alignment_to_path(alignment: tf.Tensor, tokens: int | tf.Tensor, dtype: str = "float32") -> tf.Tensor:
    """int32 [B, F] → one-hot [B, F, tokens]; all zero where the alignment is -1."""
    return tf.one_hot(alignment, tokens, dtype=dtype)


def durations_to_alignment(durations: tf.Tensor, frames: int | tf.Tensor) -> tf.Tensor:
    """int32 [B, T] → int32 [B, frames]; -1 beyond the sum of a clip's durations."""
    ends = tf.cumsum(durations, axis=1)  # [B, T]
    frame = tf.range(frames)[None, :]  # [1, F]
    ended = tf.reduce_sum(tf.cast(ends[:, None, :] <= frame[:, :, None], tf.int32), axis=2)  # [B, F]
    return tf.where(frame < ends[:, -1:], ended, -1)


def path_to_durations(path: tf.Tensor) -> tf.Tensor:
    """[B, F, T] → int32 [B, T], the frames of each token."""
    return tf.cast(tf.reduce_sum(tf.cast(path, tf.float32), axis=1), tf.int32)
