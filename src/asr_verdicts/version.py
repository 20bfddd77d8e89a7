"""The version of this package, which reports state in their methods paragraph."""

VERSION = "0.2.0"
