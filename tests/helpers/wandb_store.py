"""What the stand-in for W&B's server holds: runs with their files, and artifacts."""

import json
from dataclasses import dataclass, field
from typing import Any

HISTORY, EVENTS, SUMMARY = "wandb-history.jsonl", "wandb-events.jsonl", "wandb-summary.json"
LINES = (HISTORY, EVENTS, "output.log")
"""Files that are streamed line by line; others are replaced as a whole."""


@dataclass
class Part:
    """Lines of a streamed file as they came in one request. held: lines that the file had before."""

    file: str
    offset: int
    lines: list[str]
    held: int


@dataclass
class StoredRun:
    """A run by its id. fields: those of W&B's upsertBucket, as last received; parts: what came of its streams."""

    entity: str
    project: str
    id: str
    fields: dict[str, Any] = field(default_factory=dict)
    streams: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in LINES})
    summary: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    state: str = "running"
    exit_codes: list[int] = field(default_factory=list)

    @property
    def storage_id(self) -> str:
        return f"storage-{self.id}"

    @property
    def config(self) -> dict[str, Any]:
        """The values of the config by key, without W&B's own."""
        return {key: node["value"] for key, node in self.raw_config.items() if key != "_wandb"}

    @property
    def raw_config(self) -> dict[str, Any]:
        return json.loads(self.fields.get("config") or "{}")

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """The definitions of metrics, by name or glob: W&B's client sends them in the config, as numbered fields."""
        listed = self.raw_config.get("_wandb", {}).get("value", {}).get("m", [])
        return {node.get("1") or node.get("2", ""): node for node in listed}

    @property
    def history(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.streams[HISTORY]]

    def receive(self, body: dict[str, Any]) -> None:
        """One request of the stream: lines from an offset on take the place of what is held there."""
        for name, chunk in (body.get("files") or {}).items():
            if name in LINES:
                held = self.streams[name]
                self.parts.append(Part(name, chunk["offset"], chunk["content"], len(held)))
                held[chunk["offset"] :] = [
                    *chunk["content"], *held[chunk["offset"] + len(chunk["content"]) :],
                ]  # fmt: skip
            elif name == SUMMARY:
                self.summary = json.loads(chunk["content"][-1])
        if body.get("complete"):
            self.exit_codes.append(int(body.get("exitcode", 0)))
            self.state = "finished" if body.get("exitcode", 0) == 0 else "failed"


@dataclass
class StoredArtifact:
    """A version of an artifact. files: contents by the path in the artifact."""

    id: str
    run: StoredRun
    name: str
    type: str
    version: int
    digest: str
    files: dict[str, bytes] = field(default_factory=dict)
    manifest: bytes = b""
    state: str = "PENDING"


class Store:
    """Everything that was received. queries: the names of the GraphQL requests, in order; unknown: those without an
    answer, which a test must not see.
    """

    def __init__(self) -> None:
        self.runs: dict[tuple[str, str, str], StoredRun] = {}
        self.artifacts: list[StoredArtifact] = []
        self.queries: list[str] = []
        self.unknown: list[str] = []

    def run(self, entity: str, project: str, id_: str) -> StoredRun | None:
        return self.runs.get((entity, project, id_))

    def project(self, entity: str, project: str) -> list[StoredRun]:
        return [run for run in self.runs.values() if (run.entity, run.project) == (entity, project)]

    def artifact(self, id_: str) -> StoredArtifact:
        return next(artifact for artifact in self.artifacts if artifact.id == id_)
