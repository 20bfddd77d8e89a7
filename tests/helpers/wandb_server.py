"""A stand-in for W&B's server, on loopback, that receives what W&B's own client 0.31 sends. Lines of a stream take the
place of those held at their offset; a run that is begun under an id that exists starts anew unless it is resumed.
"""

import gzip
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

HISTORY, EVENTS, LOG, SUMMARY = "wandb-history.jsonl", "wandb-events.jsonl", "output.log", "wandb-summary.json"
ENTITY = "stand-in"  # of the account behind every key
OWNER = {"id": ENTITY, "name": ENTITY}
STREAM = re.compile(r"/files/[^/]+/[^/]+/([^/]+)/file_stream")
NAME = re.compile(r"\b(?:query|mutation)\s+(\w+)")
Json = dict[str, Any]


@dataclass
class StoredRun:
    """A run by its id. fields: those of W&B's upsertBucket, as last received; parts: of each request with lines of the
    history, their offset and how many lines were held before; files: those of its artifacts, by the artifact's type.
    """

    id: str
    fields: Json = field(default_factory=dict)
    streams: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in (HISTORY, EVENTS, LOG)})
    summary: Json = field(default_factory=dict)
    parts: list[tuple[int, int]] = field(default_factory=list)
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    state: str = "running"
    exit_codes: list[int] = field(default_factory=list)

    @property
    def config(self) -> Json:
        """The values of the config by key; those of W&B itself under _wandb."""
        return {key: node["value"] for key, node in json.loads(self.fields.get("config") or "{}").items()}

    @property
    def metrics(self) -> list[Json]:
        """The definitions of metrics: W&B's client sends them in the config, as numbered fields."""
        listed: list[Json] = self.config.get("_wandb", {}).get("m", [])
        return listed

    @property
    def history(self) -> list[Json]:
        return [json.loads(line) for line in self.streams[HISTORY]]

    def receive(self, body: Json) -> None:
        """One request of the stream."""
        for name, chunk in (body.get("files") or {}).items():
            offset, lines = chunk["offset"], chunk["content"]
            if name in self.streams:
                held = self.streams[name]
                self.parts += [(offset, len(held))] if name == HISTORY else []
                held[offset:] = [*lines, *held[offset + len(lines) :]]
            elif name == SUMMARY:
                self.summary = json.loads(lines[-1])
        if body.get("complete"):
            self.exit_codes.append(int(body.get("exitcode", 0)))
            self.state = "failed" if self.exit_codes[-1] else "finished"

    def bucket(self) -> Json:
        """As the client reads it; the tails are JSON in JSON."""
        fields = self.fields
        return {
            "id": f"storage-{self.id}", "name": self.id, "displayName": fields.get("displayName"), "description": None,
            "tags": fields.get("tags") or [], "notes": fields.get("notes"), "config": fields.get("config") or "{}",
            "summaryMetrics": json.dumps(self.summary), "historyLineCount": len(self.streams[HISTORY]),
            "eventsLineCount": len(self.streams[EVENTS]), "logLineCount": len(self.streams[LOG]),
            "historyTail": json.dumps(self.streams[HISTORY][-1:]), "eventsTail": json.dumps(self.streams[EVENTS][-1:]),
            "wandbConfig": json.dumps({"t": self.config.get("_wandb", {}).get("t", {})}),
        }  # fmt: skip


class Store:
    """Everything that was received. unknown: GraphQL requests without an answer, which a test must not see. address: of
    the server, for the places that files are sent to. An artifact's id is its run's id and its type.
    """

    address = ""

    def __init__(self) -> None:
        self.runs: dict[str, StoredRun] = {}
        self.views: dict[str, Json] = {}
        self.unknown: list[str] = []
        account = {"id": "1", "entity": ENTITY, "username": ENTITY, "email": "", "flags": "{}", "admin": False}
        viewer = {"viewer": {**account, "name": ENTITY, "teams": {"edges": []}, "apiKeys": {"edges": []}}}
        self.by_name: dict[str, Callable[[Json], Json]] = {
            "Viewer": lambda _: viewer, "GetDefaultEntity": lambda _: viewer,
            "ServerFeaturesQuery": lambda _: {"serverInfo": {"features": []}},
            "OrganizationCoreWeaveOrganizationID": lambda _: {"entity": {"organization": None}},
            "RunResumeStatus": self.resume_status, "UpsertBucket": self.upsert, "CreateRunFiles": self.run_files,
            "ArtifactType": lambda _: {"project": {"artifact": None}}, "CreateArtifact": self.create_artifact,
            "CreateArtifactManifest": self.create_manifest, "UpdateArtifactManifest": self.create_manifest,
            "CreateArtifactFiles": self.artifact_files, "View": self.view, "UpsertView2": self.upsert_view,
            "CommitArtifact": lambda given: {"commitArtifact": {"artifact": {"id": given["artifactID"], "digest": ""}}},
        }  # fmt: skip

    def answer(self, name: str, variables: Json) -> Json:
        if name not in self.by_name:
            self.unknown.append(name)
            return {"errors": [{"message": f"the stand-in knows no {name}"}]}
        return {"data": self.by_name[name](variables)}

    def resume_status(self, variables: Json) -> Json:
        project, run = variables["project"], self.runs.get(variables["name"])
        return {"model": {"id": project, "name": project, "entity": OWNER, "bucket": run and run.bucket()}}

    def upsert(self, variables: Json) -> Json:
        id_, project = variables["name"], variables["project"]
        inserted = id_ not in self.runs
        begins = variables.get("host") is not None and variables.get("id") is None  # a resumed one names its id here
        if inserted or begins:
            self.runs[id_] = StoredRun(id_)
        run = self.runs[id_]
        run.fields |= {name: value for name, value in variables.items() if value is not None}
        run.state = "running"
        place = {"id": project, "internalId": "1", "name": project, "entity": OWNER}
        return {"upsertBucket": {"bucket": {**run.bucket(), "project": place, "sweepName": None}, "inserted": inserted}}

    def view(self, variables: Json) -> Json:
        node = self.views.get(variables["viewName"])
        return {"project": {"allViews": {"edges": [{"node": node}] if node else []}}}

    def upsert_view(self, variables: Json) -> Json:
        id_ = variables.get("id") or f"view-{len(self.views)}"
        self.views[variables["name"]] = {**variables, "id": id_}
        return {"upsertView": {"view": {"id": id_, "name": variables["name"]}, "inserted": "id" not in variables}}

    def run_files(self, variables: Json) -> Json:
        files = [{"name": name, "uploadUrl": f"{self.address}/store/{name}"} for name in variables["files"]]
        return {"createRunFiles": {"runID": variables["run"], "uploadHeaders": [], "files": files}}

    def create_artifact(self, variables: Json) -> Json:
        given = variables["input"]
        sequence = {"id": given["artifactCollectionName"], "latestArtifact": None}
        made = {"id": f"{given['runName']}+{given['artifactTypeName']}", "state": "PENDING"}
        return {"createArtifact": {"artifact": {**made, "artifactSequence": sequence}}}

    def create_manifest(self, variables: Json) -> Json:
        id_ = variables.get("artifactID") or variables["artifactManifestID"]
        file = {"id": id_, "uploadUrl": f"{self.address}/manifest/{id_}", "uploadHeaders": []}
        key = "createArtifactManifest" if "artifactID" in variables else "updateArtifactManifest"
        return {key: {"artifactManifest": {"id": id_, "file": file}}}

    def artifact_files(self, variables: Json) -> Json:
        edges = []
        for spec in variables["input"]["artifactFiles"]:
            name, id_ = spec["name"], spec["artifactID"]
            names = dict.fromkeys(("name", "displayName", "storagePath"), name)
            upload = {"uploadUrl": f"{self.address}/artifact/{id_}/{name}", "uploadHeaders": []}
            edges.append({"node": {**names, **upload, "uploadMultipartUrls": None, "artifact": {"id": id_}}})
        return {"createArtifactFiles": {"files": {"edges": edges}}}


class Handler(BaseHTTPRequestHandler):
    server: "Listener"
    protocol_version = "HTTP/1.1"

    def handle_one_request(self) -> None:
        """One request, or none any more where the server went away while the connection was open."""
        if self.server.gone:
            self.close_connection = True
        else:
            super().handle_one_request()

    def do_POST(self) -> None:
        content, store = self._body(), self.server.store
        if stream := STREAM.fullmatch(self.path):
            if (run := store.runs.get(stream[1])) is None:
                return self._answer(b"{}", 404)
            with self.server.lock:
                run.receive(json.loads(content))
            return self._answer(b"{}")
        if self.path != "/graphql":  # the client's telemetry about itself
            return self._answer(b"", 404)
        body = json.loads(content)
        (name,) = NAME.findall(body["query"])
        with self.server.lock:
            answer = store.answer(name, body.get("variables") or {})
        return self._answer(json.dumps(answer).encode())

    def do_PUT(self) -> None:
        content, (kind, *place) = self._body(), unquote(self.path).removeprefix("/").split("/", 2)
        if kind == "artifact":
            run, _, type_ = place[0].partition("+")
            self.server.store.runs[run].files.setdefault(type_, {})[place[1]] = content
        self._answer(b"")

    def _body(self) -> bytes:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(content) if self.headers.get("Content-Encoding") == "gzip" else content

    def _answer(self, content: bytes, code: int = 200) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Listener(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, store: Store) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.store, self.lock, self.gone = store, threading.RLock(), False
        store.address = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def leave(self) -> None:
        """Refuse connections; what comes over those that are open gets no answer."""
        self.gone = True
        self.shutdown()
        self.server_close()


class StandIn:
    """The server on one port, which may go away and come back. store: what it has received in all that time."""

    def __init__(self) -> None:
        self.store = Store()
        self._listener = Listener(0, self.store)
        self.port, self.address = self._listener.server_port, self.store.address
        self.environment = {"WANDB_BASE_URL": self.address, "WANDB_API_KEY": "0" * 40, "WANDB_MODE": "online"}

    def come_back(self) -> None:
        self._listener = Listener(self.port, self.store)

    def go_away(self) -> None:
        self._listener.leave()


@contextmanager
def wandb_server() -> Iterator[StandIn]:
    server = StandIn()
    try:
        yield server
    finally:
        server.go_away()
