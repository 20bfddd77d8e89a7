"""Read other toolkits' hypotheses and references into the same records as this project's runs."""
