"""The commands that src/*.py run."""
