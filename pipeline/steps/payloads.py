"""The content of a file that a stage adds: its own text, or a member of a locked wheel."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from typing import Any

from pipeline.errors import Refusal
from pipeline.steps.program import Inputs


def payload_data(inputs: Inputs, payload: Mapping[str, Any]) -> bytes:
    """Return what the plan's payload stands for; its sha256 is the stage file's own word.

    Raises Refusal when the wheel has no such member, or another one than the stage says.
    """
    if "base64" in payload:
        return base64.b64decode(payload["base64"])
    filename, member = payload["filename"], payload["member"]
    with zipfile.ZipFile(inputs.file(payload["wheel"])) as archive:
        try:
            data = archive.read(member)
        except KeyError:
            raise Refusal(
                f"{filename} has no member {member}",
                hint="members are named as in the wheel's RECORD, from its root",
            ) from None
    found = hashlib.sha256(data).hexdigest()
    if found != payload["sha256"]:
        raise Refusal(
            f"{member} of {filename} is not the file that the stage names",
            details=[f"the stage says {payload['sha256']}", f"the wheel has {found}"],
            hint="look at what changed in it, then correct the sha256 in the stage's [[files]]",
        )
    return data
