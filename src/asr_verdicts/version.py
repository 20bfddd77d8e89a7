"""The version of this package, as methods paragraphs give it."""

VERSION = "0.2.0"
