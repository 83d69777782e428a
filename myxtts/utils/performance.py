"""The public face of `myxtts.performance` for training scripts."""

from myxtts.performance.bottleneck import BottleneckAnalysis
from myxtts.performance.monitor import (
    MonitorSummary,
    PerformanceMonitor,
    get_performance_monitor,
    print_performance_report,
    start_performance_monitoring,
)

__all__ = [
    "BottleneckAnalysis",
    "MonitorSummary",
    "PerformanceMonitor",
    "get_performance_monitor",
    "print_performance_report",
    "start_performance_monitoring",
]
