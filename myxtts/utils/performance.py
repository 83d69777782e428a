"""The public face of `myxtts.performance` for training scripts."""

from myxtts.performance.bottleneck import BottleneckAnalysis
from myxtts.performance.diagnose_pipeline import diagnose
from myxtts.performance.diagnosis import Diagnosis
from myxtts.performance.monitor import (
    MonitorSummary,
    PerformanceMonitor,
    get_performance_monitor,
    print_performance_report,
    start_performance_monitoring,
)

__all__ = [
    "BottleneckAnalysis",
    "Diagnosis",
    "MonitorSummary",
    "PerformanceMonitor",
    "diagnose",
    "get_performance_monitor",
    "print_performance_report",
    "start_performance_monitoring",
]
