"""An ablation that adds seeds until each question has its verdict (until=verdict)."""
