"""Files of other toolkits: hypotheses and references, read into the same records as this project's runs."""
