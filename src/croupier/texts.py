"""Plain data as text: one text for equal data, so that what is signed or compared needs no second way to write it."""

from __future__ import annotations

import json
from typing import Any


def canonical(body: dict[str, Any]) -> str:
    """JSON with sorted keys and no spaces: equal values have equal text.

    >>> canonical({"b": 1, "a": [True, None]})
    '{"a":[true,null],"b":1}'
    """
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
