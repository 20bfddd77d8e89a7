"""The version of this package, which methods paragraphs name."""

VERSION = "0.2.0"
