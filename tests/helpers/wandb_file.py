"""Reads W&B's own offline file: a LevelDB log whose records are W&B's protocol buffers."""

import json
import struct
from pathlib import Path
from typing import Any

from wandb.proto.wandb_internal_pb2 import Record

BLOCK, HEADER, FILE_HEADER = 32768, 7, 7
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


def records(path: Path) -> list[Record]:
    """All records of a .wandb file, in order."""
    content, position, found, partial = path.read_bytes(), FILE_HEADER, [], b""
    assert content[:4] == b":W&B"
    while position + HEADER <= len(content):
        if BLOCK - position % BLOCK < HEADER:  # the rest of a block too small for a header is padding
            position += BLOCK - position % BLOCK
            continue
        _, size, kind = struct.unpack("<IHB", content[position : position + HEADER])
        partial = (b"" if kind in (FULL, FIRST) else partial) + content[position + HEADER : position + HEADER + size]
        position += HEADER + size
        if kind in (FULL, LAST):
            record = Record()
            record.ParseFromString(partial)
            found.append(record)
    return found


def read_run(path: Path) -> dict[str, Any]:
    """id, group, name, job type, tags, notes, config, history (a list of rows), metrics (by name the axis and what the
    summary keeps), artifacts (by type the names), files (of an artifact by its name, where each lies), summary and exit
    code of one offline run.
    """
    told: dict[str, Any] = {
        "config": {}, "history": [], "summary": {}, "metrics": {}, "artifacts": {}, "files": {},
        "exit_code": None,
    }  # fmt: skip
    for record in records(path):
        kind = record.WhichOneof("record_type")
        if kind == "run":
            told |= {"id": record.run.run_id, "group": record.run.run_group, "name": record.run.display_name}
            told |= {"job_type": record.run.job_type, "tags": [*record.run.tags], "notes": record.run.notes}
            told["config"] |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
        elif kind == "history":
            row = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            told["history"].append(row)
        elif kind == "summary":
            items = record.summary.update
            told["summary"] |= {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}
        elif kind == "metric":
            name = record.metric.name or record.metric.glob_name
            told["metrics"][name] = (record.metric.step_metric, "min" if record.metric.summary.min else "")
        elif kind == "request" and record.request.HasField("log_artifact"):
            artifact = record.request.log_artifact.artifact
            told["artifacts"].setdefault(artifact.type, []).append(artifact.name)
        elif kind == "artifact":
            told["artifacts"].setdefault(record.artifact.type, []).append(record.artifact.name)
            entries = record.artifact.manifest.contents
            told["files"][record.artifact.name] = {entry.path: Path(entry.local_path) for entry in entries}
        elif kind == "exit":
            told["exit_code"] = record.exit.exit_code
    return told
