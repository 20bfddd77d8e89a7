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
    """id, group, name, config, history (a list of rows), summary and exit code of one offline run."""
    told: dict[str, Any] = {"config": {}, "history": [], "summary": {}, "exit_code": None}
    for record in records(path):
        kind = record.WhichOneof("record_type")
        if kind == "run":
            told |= {"id": record.run.run_id, "group": record.run.run_group, "name": record.run.display_name}
            told["config"] |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
        elif kind == "history":
            row = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            told["history"].append(row)
        elif kind == "summary":
            items = record.summary.update
            told["summary"] |= {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}
        elif kind == "exit":
            told["exit_code"] = record.exit.exit_code
    return told
