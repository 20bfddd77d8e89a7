"""Answers to the GraphQL requests that W&B's client makes, by the name of the request. A request's text is not read: an
answer has every field that the client's 0.31 asks for.
"""

import json
from collections.abc import Callable
from typing import Any

from tests.helpers.wandb_store import EVENTS, HISTORY, Store, StoredArtifact, StoredRun

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
        }  # fmt: skip

    def __call__(self, name: str, variables: Json) -> Json:
        self.store.queries.append(name)
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
