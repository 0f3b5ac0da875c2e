"""Plain data as text: one text for equal data, so that what is signed or compared needs no second way to write it.

And texts of other people, which must not change what is shown around them.
"""

from __future__ import annotations

import json
import re
from typing import Any

from croupier.checks import InvalidParameter

LONGEST_WORDS = 1_000
"""Characters of a title, an arm's name or a unit: a device keeps them with every turn."""
NO_WORDS = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What would move, hide or turn around the text that it is shown in."""


def canonical(body: dict[str, Any]) -> str:
    """JSON with sorted keys and no spaces: equal values have equal text.

    >>> canonical({"b": 1, "a": [True, None]})
    '{"a":[true,null],"b":1}'
    """
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def plural(count: int, what: str) -> str:
    """So many of something.

    >>> plural(1, "run"), plural(2_000, "user")
    ('1 run', '2,000 users')
    """
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def one_line(text: str, longest: int = 400) -> str:
    """A stranger's text as one line of moderate length, with nothing in it that moves or hides what is around it.

    >>> one_line("tour" + chr(27) + "[2K" + chr(10) + "forged")
    'tour?[2K?forged'
    """
    return "".join(sign if sign.isprintable() else "?" for sign in text[:longest])


def check_words(name: str, value: object) -> str:
    """A text that is shown to people: short, in one line, with nothing in it that changes what is around it.

    >>> check_words("title", "Which colour?")
    'Which colour?'
    """
    if not isinstance(value, str) or len(value) > LONGEST_WORDS or NO_WORDS.search(value):
        raise InvalidParameter(
            name, value, f"one line of at most {LONGEST_WORDS:,} characters, none of them for control"
        )
    return value
