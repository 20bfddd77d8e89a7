"""Scripts that publish this project's answers: records, RESULTS.md, and the heads of the sweep files."""
