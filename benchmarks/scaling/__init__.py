"""What `bench_scale.py` measures, a module for each part of it."""
