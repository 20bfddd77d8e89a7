"""Scripts that publish this project's answers: records, RESULTS.md, docs/options.md, the heads of the sweep files."""
