"""Ablations that add seeds until each question has its verdict (until=verdict)."""
