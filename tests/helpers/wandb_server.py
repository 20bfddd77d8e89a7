"""A stand-in for W&B's server, on loopback: a real HTTP server that speaks the protocol of W&B's own client 0.31, as
read in its source and its requests. It is not W&B: what the real server does with what it receives is not known here.

Two rules are taken from elsewhere. Lines of a stream take the place of those held at their offset, as W&B's own tests
of its client reckon. A run that is begun under an id that exists starts anew unless it is resumed, as the documentation
of wandb.init says.
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
    """Everything that was received. unknown: GraphQL requests without an answer, which a test must not see."""

    def __init__(self) -> None:
        self.runs: dict[tuple[str, str, str], StoredRun] = {}
        self.artifacts: list[StoredArtifact] = []
        self.views: dict[str, Json] = {}
        self.unknown: list[str] = []

    def run(self, entity: str, project: str, id_: str) -> StoredRun | None:
        return self.runs.get((entity, project, id_))

    def project(self, entity: str, project: str) -> list[StoredRun]:
        return [run for run in self.runs.values() if (run.entity, run.project) == (entity, project)]

    def artifact(self, id_: str) -> StoredArtifact:
        return next(artifact for artifact in self.artifacts if artifact.id == id_)


ENTITY = "stand-in"
"""The entity of the account behind every key."""
DATE = "2026-01-01T00:00:00Z"
NO_PARQUET = {"parquetUrls": [], "liveData": []}
Json = dict[str, Any]


class Answers:
    """address: of the server, for the places that files are sent to and fetched from."""

    def __init__(self, store: Store, address: str) -> None:
        self.store, self.address = store, address
        self.by_name: dict[str, Callable[[Json], Json]] = {
            "Viewer": self.viewer, "GetDefaultEntity": self.viewer,
            "ServerFeaturesQuery": lambda _: {"serverInfo": {"features": []}},
            "OrganizationCoreWeaveOrganizationID": lambda _: {"entity": {"organization": None}},
            "RunResumeStatus": self.resume_status, "UpsertBucket": self.upsert, "CreateRunFiles": self.run_files,
            "ArtifactType": lambda _: {"project": {"artifact": None}}, "CreateArtifact": self.create_artifact,
            "CreateArtifactManifest": self.create_manifest, "UpdateArtifactManifest": self.create_manifest,
            "CreateArtifactFiles": self.artifact_files, "CommitArtifact": self.commit, "Runs": self.runs,
            "Run": self.whole_run, "RunHistoryKeys": self.whole_run,
            "RunParquetHistory": lambda _: {"project": {"run": {"parquetHistory": NO_PARQUET}}},
            "HistoryPage": self.history, "RunOutputArtifacts": self.output_artifacts,
            "FetchArtifactManifest": self.manifest, "GetArtifactMembershipFileUrls": self.file_urls,
            "View": self.view, "UpsertView2": self.upsert_view,
        }  # fmt: skip

    def __call__(self, name: str, variables: Json) -> Json:
        if name not in self.by_name:
            self.store.unknown.append(name)
            return {"errors": [{"message": f"the stand-in knows no {name}"}]}
        return {"data": self.by_name[name](variables)}

    def viewer(self, _: Json) -> Json:
        account = {"id": "1", "entity": ENTITY, "username": ENTITY, "email": "", "flags": "{}", "admin": False}
        return {"viewer": {**account, "name": ENTITY, "teams": {"edges": []}, "apiKeys": {"edges": []}}}

    def resume_status(self, variables: Json) -> Json:
        entity, project = variables.get("entity") or ENTITY, variables["project"]
        run = self.store.run(entity, project, variables["name"])
        owner = {"id": entity, "name": entity}
        return {"model": {"id": project, "name": project, "entity": owner, "bucket": _bucket(run)}}

    def upsert(self, variables: Json) -> Json:
        entity = variables.get("entity") or ENTITY
        key = (entity, variables["project"], variables["name"])
        inserted = key not in self.store.runs
        begins = variables.get("host") is not None and variables.get("id") is None  # a resumed one names its id here
        if inserted or begins:
            self.store.runs[key] = StoredRun(*key)
        run = self.store.runs[key]
        run.fields |= {name: value for name, value in variables.items() if value is not None}
        run.state = "running"
        return {"upsertBucket": {"bucket": {**_bucket(run), **_place(run), "sweepName": None}, "inserted": inserted}}  # type: ignore[dict-item]

    def view(self, variables: Json) -> Json:
        node = self.store.views.get(variables["viewName"])
        return {"project": {"allViews": {"edges": [{"node": node}] if node else []}}}

    def upsert_view(self, variables: Json) -> Json:
        id_ = variables.get("id") or f"view-{len(self.store.views)}"
        self.store.views[variables["name"]] = {**variables, "id": id_}
        return {"upsertView": {"view": {"id": id_, "name": variables["name"]}, "inserted": "id" not in variables}}

    def run_files(self, variables: Json) -> Json:
        place = f"{self.address}/store/{variables['entity']}/{variables['project']}/{variables['run']}"
        files = [{"name": name, "uploadUrl": f"{place}/{name}"} for name in variables["files"]]
        return {"createRunFiles": {"runID": variables["run"], "uploadHeaders": [], "files": files}}

    def create_artifact(self, variables: Json) -> Json:
        given = variables["input"]
        run = self.store.run(given["entityName"] or ENTITY, given["projectName"], given["runName"])
        assert run is not None
        name, kind = given["artifactCollectionName"], given["artifactTypeName"]
        earlier = [a for a in self.store.artifacts if (a.run.project, a.name) == (run.project, name)]
        same = next((a for a in earlier if a.digest == given["digest"]), None)
        if same is None:
            id_ = f"artifact-{len(self.store.artifacts)}"
            same = StoredArtifact(id_, run, name, kind, len(earlier), given["digest"])
            self.store.artifacts.append(same)
        latest = {"id": earlier[-1].id, "versionIndex": earlier[-1].version} if earlier else None
        sequence = {"id": name, "latestArtifact": latest}
        return {"createArtifact": {"artifact": {"id": same.id, "state": same.state, "artifactSequence": sequence}}}

    def create_manifest(self, variables: Json) -> Json:
        id_ = variables.get("artifactID") or variables["artifactManifestID"]
        file = {"id": id_, "uploadUrl": f"{self.address}/manifest/{id_}", "uploadHeaders": []}
        key = "createArtifactManifest" if "artifactID" in variables else "updateArtifactManifest"
        return {key: {"artifactManifest": {"id": id_, "file": file}}}

    def artifact_files(self, variables: Json) -> Json:
        place = f"{self.address}/artifact"
        nodes = [
            {
                "name": spec["name"], "displayName": spec["name"], "storagePath": spec["name"],
                "uploadUrl": f"{place}/{spec['artifactID']}/{spec['name']}", "uploadHeaders": [],
                "uploadMultipartUrls": None, "artifact": {"id": spec["artifactID"]},
            }
            for spec in variables["input"]["artifactFiles"]
        ]  # fmt: skip
        return {"createArtifactFiles": {"files": {"edges": [{"node": node} for node in nodes]}}}

    def commit(self, variables: Json) -> Json:
        artifact = self.store.artifact(variables["artifactID"])
        artifact.state = "COMMITTED"
        return {"commitArtifact": {"artifact": {"id": artifact.id, "digest": artifact.digest}}}

    def runs(self, variables: Json) -> Json:
        """Filters of W&B's are MongoDB's; of them equality of a run's own field is enough."""
        filters = json.loads(variables["filters"])
        names = {"group": "groupName", "jobType": "jobType", "name": "name"}
        found = [
            run for run in self.store.project(variables["entity"], variables["project"])
            if all(run.fields.get(names[key]) == value for key, value in filters.items())
        ]  # fmt: skip
        first = int(variables.get("cursor") or 0)
        page = found[first : first + variables["perPage"]]
        edges = [{"node": _node(run, whole=False), "cursor": str(place)} for place, run in enumerate(page, first + 1)]
        more = first + len(page) < len(found)
        return {"project": {"internalId": "1", "runCount": len(found), "readOnly": False, "runs": {
            "edges": edges, "pageInfo": {"endCursor": edges[-1]["cursor"] if edges else None, "hasNextPage": more},
        }}}  # fmt: skip

    def whole_run(self, variables: Json) -> Json:
        run = self._found(variables)
        return {"project": {"run": None if run is None else _node(run, whole=True)}}

    def history(self, variables: Json) -> Json:
        run = self._found(variables)
        assert run is not None
        rows = [row for row in run.history if variables["minStep"] <= row["_step"] < variables["maxStep"]]
        return {"project": {"run": {"history": [json.dumps(row) for row in rows]}}}

    def output_artifacts(self, variables: Json) -> Json:
        run = self._found(variables)
        nodes = [_artifact(artifact) for artifact in self.store.artifacts if artifact.run is run]
        page = {"__typename": "PageInfo", "endCursor": None, "hasNextPage": False}
        return {"project": {"run": {"artifacts": {
            "totalCount": len(nodes), "pageInfo": page, "edges": [{"node": node} for node in nodes],
        }}}}  # fmt: skip

    def manifest(self, variables: Json) -> Json:
        return {"artifact": {"currentManifest": {"file": {"directUrl": f"{self.address}/manifest/{variables['id']}"}}}}

    def file_urls(self, variables: Json) -> Json:
        wanted = (variables["project"], variables["collection"], variables["alias"])
        (artifact,) = [a for a in self.store.artifacts if (a.run.project, a.name, f"v{a.version}") == wanted]
        place = f"{self.address}/artifact/{artifact.id}"
        edges = [{"node": {"__typename": "File", "name": n, "directUrl": f"{place}/{n}"}} for n in artifact.files]
        page = {"__typename": "PageInfo", "endCursor": None, "hasNextPage": False}
        return {"project": {"artifactCollection": {"__typename": "ArtifactSequence", "artifactMembership": {
            "files": {"pageInfo": page, "edges": edges},
        }}}}  # fmt: skip

    def _found(self, variables: Json) -> StoredRun | None:
        name = variables.get("name") or variables.get("run") or variables["runName"]
        return self.store.run(variables["entity"], variables["project"], name)


def _place(run: StoredRun) -> Json:
    entity = {"id": run.entity, "name": run.entity}
    return {"project": {"id": run.project, "internalId": "1", "name": run.project, "entity": entity}}


def _bucket(run: StoredRun | None) -> Json | None:
    """A run as the writing side of the client reads it; the tails are JSON in JSON."""
    if run is None:
        return None
    fields = run.fields
    return {
        "id": run.storage_id, "name": run.id, "displayName": fields.get("displayName"), "description": None,
        "config": fields.get("config") or "{}", "summaryMetrics": json.dumps(run.summary),
        "historyLineCount": len(run.streams[HISTORY]), "eventsLineCount": len(run.streams[EVENTS]),
        "logLineCount": len(run.streams["output.log"]),
        "historyTail": json.dumps(run.streams[HISTORY][-1:]), "eventsTail": json.dumps(run.streams[EVENTS][-1:]),
        "tags": fields.get("tags") or [], "notes": fields.get("notes"),
        "wandbConfig": json.dumps({"t": run.raw_config.get("_wandb", {}).get("value", {}).get("t", {})}),
    }  # fmt: skip


def _node(run: StoredRun, *, whole: bool) -> Json:
    """A run as the reading side of the client reads it; the lighter one has no config."""
    fields = run.fields
    light = {
        "id": run.storage_id, "projectId": "1", "name": run.id, "displayName": fields.get("displayName"),
        "state": run.state, "group": fields.get("groupName"), "jobType": fields.get("jobType"),
        "tags": fields.get("tags") or [], "notes": fields.get("notes"), "sweepName": None, "commit": None,
        "readOnly": False, "createdAt": DATE, "heartbeatAt": DATE, "description": None,
        "historyLineCount": len(run.streams[HISTORY]), "user": {"name": ENTITY, "username": ENTITY},
    }  # fmt: skip
    steps = [row["_step"] for row in run.history]
    heavy = {
        "config": fields.get("config") or "{}", "summaryMetrics": json.dumps(run.summary), "systemMetrics": "{}",
        "historyKeys": {"lastStep": max(steps, default=-1), "keys": {}},
    }  # fmt: skip
    return {**light, **heavy} if whole else light


def _artifact(artifact: StoredArtifact) -> Json:
    project = _place(artifact.run)["project"]
    return {
        "__typename": "Artifact", "id": artifact.id, "versionIndex": artifact.version, "state": artifact.state,
        "artifactSequence": {"__typename": "ArtifactSequence", "name": artifact.name, "project": project},
        "artifactType": {"name": artifact.type}, "description": None, "metadata": None, "ttlDurationSeconds": -2,
        "ttlIsInherited": True, "tags": [], "historyStep": None, "size": sum(map(len, artifact.files.values())),
        "digest": artifact.digest, "digestAlgorithm": "MANIFEST_MD5", "commitHash": "",
        "fileCount": len(artifact.files), "createdAt": DATE, "updatedAt": DATE, "aliases": [],
    }  # fmt: skip


STREAM = re.compile(r"/files/([^/]+)/([^/]+)/([^/]+)/file_stream")
NAME = re.compile(r"\b(?:query|mutation)\s+(\w+)")


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
        content = self._body()
        if self.path != "/graphql" and not STREAM.fullmatch(self.path):  # the client's telemetry about itself
            self._answer(404, b"")
            return
        body = json.loads(content)
        if stream := STREAM.fullmatch(self.path):
            run = self.server.store.run(*stream.groups())
            if run is None:
                self._answer(404, b"{}")
                return
            with self.server.lock:
                run.receive(body)
            self._answer(200, b"{}")
            return
        name = NAME.search(body["query"])
        assert name is not None
        if name[1] == self.server.last_query:
            self.server.leave()
            self.close_connection = True
            return
        with self.server.lock:
            answer = self.server.answers(name[1], body.get("variables") or {})
        self._answer(200, json.dumps(answer).encode())

    def do_PUT(self) -> None:
        content = self._body()
        kind, _, rest = unquote(self.path).removeprefix("/").partition("/")
        store = self.server.store
        if kind == "store":
            entity, project, run, name = rest.split("/", 3)
            store.runs[entity, project, run].files[name] = content
        elif kind == "manifest":
            store.artifact(rest).manifest = content
        else:
            id_, _, name = rest.partition("/")
            store.artifact(id_).files[name] = content
        self._answer(200, b"")

    def do_GET(self) -> None:
        kind, _, rest = unquote(self.path).removeprefix("/").partition("/")
        if kind not in ("manifest", "artifact"):
            self._answer(404, b"")
            return
        id_, _, name = rest.partition("/")
        artifact = self.server.store.artifact(id_)
        self._answer(200, artifact.manifest if kind == "manifest" else artifact.files[name])

    def _body(self) -> bytes:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(content) if self.headers.get("Content-Encoding") == "gzip" else content

    def _answer(self, code: int, content: bytes) -> None:
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
        self.answers = Answers(store, f"http://127.0.0.1:{self.server_port}")
        self.last_query: str | None = None

    def leave(self) -> None:
        """Refuse connections; what comes over those that are open gets no answer."""
        self.gone = True
        self.shutdown()
        self.server_close()


class StandIn:
    """The server on one port, which may go away and come back. store: what it has received in all that time."""

    def __init__(self) -> None:
        self.store = Store()
        self.port = 0
        self.come_back()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What a command needs so that it logs here, and nowhere else."""
        return {"WANDB_BASE_URL": self.address, "WANDB_API_KEY": "0" * 40, "WANDB_MODE": "online"}

    def come_back(self) -> None:
        self._listener = Listener(self.port, self.store)
        self.port = self._listener.server_port
        threading.Thread(target=self._listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

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
