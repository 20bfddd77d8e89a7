"""Schedules of the learning rate. Contract: ScheduleFactory; MonitoredSchedule for one that follows a validation figure."""

from asr_ablations.training.contracts import MonitoredSchedule, ScheduleFactory

__all__ = ["ScheduleFactory", "MonitoredSchedule"]
