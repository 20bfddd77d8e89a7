"""Until when a sweep adds runs. Contract: a factory without arguments, of Settings, or of None for the runs named."""
