"""Schedules of the learning rate. Contract: ScheduleFactory, which makes a schedule, possibly a
MonitoredSchedule.
"""

from asr_ablations.training.contracts import MonitoredSchedule, ScheduleFactory

__all__ = ["MonitoredSchedule", "ScheduleFactory"]
