"""The packed features of a data set: what a store's files are, how they are opened, checked and built."""

from myxtts.data.store.feature_store import FeatureStore

__all__ = ["FeatureStore"]
