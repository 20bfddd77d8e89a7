"""Sweeps that add seeds until each question has a verdict (until=verdict)."""
