"""A stand-in for W&B's server, on loopback, that speaks the protocol of W&B's own client 0.31. Lines of a stream take
the place of those held at their offset; a run that is begun under an id that exists starts anew unless it is resumed.
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
ENTITY = "stand-in"
"""The entity of the account behind every key."""
DATE = "2026-01-01T00:00:00Z"
LAST_PAGE = {"__typename": "PageInfo", "endCursor": None, "hasNextPage": False}
STREAM = re.compile(r"/files/([^/]+)/([^/]+)/([^/]+)/file_stream")
NAME = re.compile(r"\b(?:query|mutation)\s+(\w+)")
Json = dict[str, Any]


@dataclass
class Part:
    """Lines of a streamed file that came in one request. held: lines that the file had before."""

    file: str
    offset: int
    held: int


@dataclass
class StoredRun:
    """A run by its id. fields: those of W&B's upsertBucket, as last received; parts: what came of its streams."""

    entity: str
    project: str
    id: str
    fields: Json = field(default_factory=dict)
    streams: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in (HISTORY, EVENTS, LOG)})
    summary: Json = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    state: str = "running"
    exit_codes: list[int] = field(default_factory=list)

    @property
    def config(self) -> Json:
        """The values of the config by key, without W&B's own."""
        return {key: node["value"] for key, node in self.raw_config.items() if key != "_wandb"}

    @property
    def raw_config(self) -> Json:
        return json.loads(self.fields.get("config") or "{}")

    @property
    def metrics(self) -> dict[str, Json]:
        """The definitions of metrics, by name or glob: W&B's client sends them in the config, as numbered fields."""
        listed = self.raw_config.get("_wandb", {}).get("value", {}).get("m", [])
        return {node.get("1") or node.get("2", ""): node for node in listed}

    @property
    def history(self) -> list[Json]:
        return [json.loads(line) for line in self.streams[HISTORY]]

    def receive(self, body: Json) -> None:
        """One request of the stream."""
        for name, chunk in (body.get("files") or {}).items():
            offset, lines = chunk["offset"], chunk["content"]
            if name in self.streams:
                held = self.streams[name]
                self.parts.append(Part(name, offset, len(held)))
                held[offset:] = [*lines, *held[offset + len(lines) :]]
            elif name == SUMMARY:
                self.summary = json.loads(lines[-1])
        if body.get("complete"):
            self.exit_codes.append(int(body.get("exitcode", 0)))
            self.state = "failed" if self.exit_codes[-1] else "finished"

    def place(self) -> Json:
        return {"id": self.project, "internalId": "1", "name": self.project, "entity": _owner(self.entity)}

    def described(self) -> Json:
        """What both sides of the client read of it."""
        fields = self.fields
        return {
            "id": f"storage-{self.id}", "name": self.id, "displayName": fields.get("displayName"), "description": None,
            "tags": fields.get("tags") or [], "notes": fields.get("notes"), "config": fields.get("config") or "{}",
            "summaryMetrics": json.dumps(self.summary), "historyLineCount": len(self.streams[HISTORY]),
        }  # fmt: skip

    def bucket(self) -> Json:
        """As the writing side reads it; the tails are JSON in JSON."""
        return {
            **self.described(),
            "eventsLineCount": len(self.streams[EVENTS]), "logLineCount": len(self.streams[LOG]),
            "historyTail": json.dumps(self.streams[HISTORY][-1:]), "eventsTail": json.dumps(self.streams[EVENTS][-1:]),
            "wandbConfig": json.dumps({"t": self.raw_config.get("_wandb", {}).get("value", {}).get("t", {})}),
        }  # fmt: skip

    def node(self, whole: bool) -> Json:
        """As the reading side reads it; the lighter one has no config."""
        own, last = self.described(), max((row["_step"] for row in self.history), default=-1)
        heavy = {"config": own.pop("config"), "summaryMetrics": own.pop("summaryMetrics"), "systemMetrics": "{}"}
        light = {
            **own, "projectId": "1", "state": self.state, "group": self.fields.get("groupName"),
            "jobType": self.fields.get("jobType"), "sweepName": None, "commit": None, "readOnly": False,
            "createdAt": DATE, "heartbeatAt": DATE, "user": {"name": ENTITY, "username": ENTITY},
        }  # fmt: skip
        return {**light, **heavy, "historyKeys": {"lastStep": last, "keys": {}}} if whole else light


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

    def node(self) -> Json:
        sequence = {"__typename": "ArtifactSequence", "name": self.name, "project": self.run.place()}
        return {
            "__typename": "Artifact", "id": self.id, "versionIndex": self.version, "state": self.state,
            "artifactSequence": sequence, "artifactType": {"name": self.type}, "description": None, "metadata": None,
            "ttlDurationSeconds": -2, "ttlIsInherited": True, "tags": [], "historyStep": None,
            "size": sum(map(len, self.files.values())), "digest": self.digest, "digestAlgorithm": "MANIFEST_MD5",
            "commitHash": "", "fileCount": len(self.files), "createdAt": DATE, "updatedAt": DATE, "aliases": [],
        }  # fmt: skip


class Store:
    """Everything that was received. unknown: GraphQL requests without an answer, which a test must not see. address: of
    the server, for the places that files are sent to and fetched from.
    """

    address = ""

    def __init__(self) -> None:
        self.runs: dict[tuple[str, str, str], StoredRun] = {}
        self.artifacts: list[StoredArtifact] = []
        self.views: dict[str, Json] = {}
        self.unknown: list[str] = []
        account = {"id": "1", "entity": ENTITY, "username": ENTITY, "email": "", "flags": "{}", "admin": False}
        viewer = {"viewer": {**account, "name": ENTITY, "teams": {"edges": []}, "apiKeys": {"edges": []}}}
        parquet = {"project": {"run": {"parquetHistory": {"parquetUrls": [], "liveData": []}}}}
        self.by_name: dict[str, Callable[[Json], Json]] = {
            "Viewer": lambda _: viewer, "GetDefaultEntity": lambda _: viewer,
            "ServerFeaturesQuery": lambda _: {"serverInfo": {"features": []}},
            "OrganizationCoreWeaveOrganizationID": lambda _: {"entity": {"organization": None}},
            "RunResumeStatus": self.resume_status, "UpsertBucket": self.upsert, "CreateRunFiles": self.run_files,
            "ArtifactType": lambda _: {"project": {"artifact": None}}, "CreateArtifact": self.create_artifact,
            "CreateArtifactManifest": self.create_manifest, "UpdateArtifactManifest": self.create_manifest,
            "CreateArtifactFiles": self.artifact_files, "CommitArtifact": self.commit, "Runs": self.listed_runs,
            "Run": self.whole_run, "RunHistoryKeys": self.whole_run, "RunParquetHistory": lambda _: parquet,
            "HistoryPage": self.history, "RunOutputArtifacts": self.output_artifacts,
            "FetchArtifactManifest": self.manifest, "GetArtifactMembershipFileUrls": self.file_urls,
            "View": self.view, "UpsertView2": self.upsert_view,
        }  # fmt: skip

    def answer(self, name: str, variables: Json) -> Json:
        if name not in self.by_name:
            self.unknown.append(name)
            return {"errors": [{"message": f"the stand-in knows no {name}"}]}
        return {"data": self.by_name[name](variables)}

    def project(self, entity: str, project: str) -> list[StoredRun]:
        return [run for run in self.runs.values() if (run.entity, run.project) == (entity, project)]

    def artifact(self, id_: str) -> StoredArtifact:
        return next(artifact for artifact in self.artifacts if artifact.id == id_)

    def found(self, variables: Json) -> StoredRun | None:
        name = variables.get("name") or variables.get("run") or variables["runName"]
        return self.runs.get((variables.get("entity") or ENTITY, variables["project"], name))

    def resume_status(self, variables: Json) -> Json:
        project, run = variables["project"], self.found(variables)
        owner = _owner(variables.get("entity") or ENTITY)
        return {"model": {"id": project, "name": project, "entity": owner, "bucket": run and run.bucket()}}

    def upsert(self, variables: Json) -> Json:
        key = (variables.get("entity") or ENTITY, variables["project"], variables["name"])
        inserted = key not in self.runs
        begins = variables.get("host") is not None and variables.get("id") is None  # a resumed one names its id here
        if inserted or begins:
            self.runs[key] = StoredRun(*key)
        run = self.runs[key]
        run.fields |= {name: value for name, value in variables.items() if value is not None}
        run.state = "running"
        bucket = {**run.bucket(), "project": run.place(), "sweepName": None}
        return {"upsertBucket": {"bucket": bucket, "inserted": inserted}}

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
        run = self.runs[given["entityName"] or ENTITY, given["projectName"], given["runName"]]
        name, kind, digest = (given[key] for key in ("artifactCollectionName", "artifactTypeName", "digest"))
        earlier = [a for a in self.artifacts if (a.run.project, a.name) == (run.project, name)]
        made = next((a for a in earlier if a.digest == digest), None)
        if made is None:
            made = StoredArtifact(f"artifact-{len(self.artifacts)}", run, name, kind, len(earlier), digest)
            self.artifacts.append(made)
        latest = {"id": earlier[-1].id, "versionIndex": earlier[-1].version} if earlier else None
        sequence = {"id": name, "latestArtifact": latest}
        return {"createArtifact": {"artifact": {"id": made.id, "state": made.state, "artifactSequence": sequence}}}

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

    def commit(self, variables: Json) -> Json:
        artifact = self.artifact(variables["artifactID"])
        artifact.state = "COMMITTED"
        return {"commitArtifact": {"artifact": {"id": artifact.id, "digest": artifact.digest}}}

    def listed_runs(self, variables: Json) -> Json:
        """Filters of W&B's are MongoDB's; of them equality of a run's own field is enough."""
        names = {"group": "groupName", "jobType": "jobType", "name": "name"}
        filters = {names[key]: value for key, value in json.loads(variables["filters"]).items()}
        held = self.project(variables["entity"], variables["project"])
        found = [run for run in held if filters.items() <= run.fields.items()]
        first = int(variables.get("cursor") or 0)
        page = found[first : first + variables["perPage"]]
        edges = [{"node": run.node(whole=False), "cursor": str(place)} for place, run in enumerate(page, first + 1)]
        info = {"endCursor": edges[-1]["cursor"] if edges else None, "hasNextPage": first + len(page) < len(found)}
        listed = {"edges": edges, "pageInfo": info}
        return {"project": {"internalId": "1", "runCount": len(found), "readOnly": False, "runs": listed}}

    def whole_run(self, variables: Json) -> Json:
        run = self.found(variables)
        return {"project": {"run": run and run.node(whole=True)}}

    def history(self, variables: Json) -> Json:
        run = self.found(variables)
        rows = (
            [row for row in run.history if variables["minStep"] <= row["_step"] < variables["maxStep"]] if run else []
        )
        return {"project": {"run": {"history": [json.dumps(row) for row in rows]}}}

    def output_artifacts(self, variables: Json) -> Json:
        run = self.found(variables)
        edges = [{"node": artifact.node()} for artifact in self.artifacts if artifact.run is run]
        listed = {"totalCount": len(edges), "pageInfo": LAST_PAGE, "edges": edges}
        return {"project": {"run": {"artifacts": listed}}}

    def manifest(self, variables: Json) -> Json:
        return {"artifact": {"currentManifest": {"file": {"directUrl": f"{self.address}/manifest/{variables['id']}"}}}}

    def file_urls(self, variables: Json) -> Json:
        wanted = (variables["project"], variables["collection"], variables["alias"])
        (artifact,) = [a for a in self.artifacts if (a.run.project, a.name, f"v{a.version}") == wanted]
        place = f"{self.address}/artifact/{artifact.id}"
        edges = [{"node": {"__typename": "File", "name": n, "directUrl": f"{place}/{n}"}} for n in artifact.files]
        membership = {"files": {"pageInfo": LAST_PAGE, "edges": edges}}
        return {"project": {"artifactCollection": {"__typename": "ArtifactSequence", "artifactMembership": membership}}}


def _owner(entity: str) -> Json:
    return {"id": entity, "name": entity}


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
            if (run := store.runs.get(stream.groups())) is None:  # type: ignore[call-overload]
                return self._answer(b"{}", 404)
            with self.server.lock:
                run.receive(json.loads(content))
            return self._answer(b"{}")
        if self.path != "/graphql":  # the client's telemetry about itself
            return self._answer(b"", 404)
        body = json.loads(content)
        (name,) = NAME.findall(body["query"])
        if name == self.server.last_query:
            self.server.leave()
            self.close_connection = True
            return None
        with self.server.lock:
            answer = store.answer(name, body.get("variables") or {})
        return self._answer(json.dumps(answer).encode())

    def do_PUT(self) -> None:
        content, (kind, id_, name) = self._body(), self._place()
        if kind == "manifest":
            self.server.store.artifact(id_).manifest = content
        elif kind == "artifact":
            self.server.store.artifact(id_).files[name] = content
        self._answer(b"")

    def do_GET(self) -> None:
        kind, id_, name = self._place()
        if kind not in ("manifest", "artifact"):
            return self._answer(b"", 404)
        artifact = self.server.store.artifact(id_)
        return self._answer(artifact.manifest if kind == "manifest" else artifact.files[name])

    def _place(self) -> list[str]:
        return [*unquote(self.path).removeprefix("/").split("/", 2), "", ""][:3]

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
        self.last_query: str | None = None
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
    def gone_at(self, query: str) -> Iterator[None]:
        """It goes away when a GraphQL request of this name comes, which gets no answer, and is back after the block."""
        self._listener.last_query = query
        try:
            yield
        finally:
            self.go_away()
            self.come_back()


@contextmanager
def wandb_server() -> Iterator[StandIn]:
    server = StandIn()
    try:
        yield server
    finally:
        server.go_away()
