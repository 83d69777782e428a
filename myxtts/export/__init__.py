"""From a checkpoint to what others run: a bundle for ONNX Runtime or LiteRT, or a SavedModel. Needs TensorFlow."""
