"""The public face of `myxtts.performance` for training scripts."""

from myxtts.performance.monitor import (
    PerformanceMonitor,
    get_performance_monitor,
    print_performance_report,
    start_performance_monitoring,
)

__all__ = [
    "PerformanceMonitor",
    "get_performance_monitor",
    "print_performance_report",
    "start_performance_monitoring",
]
