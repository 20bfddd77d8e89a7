"""The parts of a campaign, a file each: it has NAME, DESCRIPTION and run(context) -> Report."""
