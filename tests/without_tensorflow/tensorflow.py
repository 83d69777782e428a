"""Stands in TensorFlow's place in the processes that tests start under `make quick`."""

raise ImportError("`make quick` runs without TensorFlow; a test that starts it is marked with pytest.mark.tensorflow")
