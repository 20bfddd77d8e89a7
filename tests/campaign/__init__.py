"""Long campaigns: what the suite holds in a short form, for an hour or more (make campaign)."""
