"""What other toolkits wrote: their files of hypotheses and references, read into the same records as own runs."""
