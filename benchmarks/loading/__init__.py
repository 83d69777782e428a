"""The parts of `bench_loading.py`: the data, the rows of its tables, how one row is measured, what is printed."""
