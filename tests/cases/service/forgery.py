"""Transcripts changed by hand: records that are chained and signed again, by whoever has a key for it."""

import json

from croupier.programs import records
from croupier.programs.records import Head


def parsed(transcript):
    return [json.loads(line) for line in transcript.splitlines()]


def resigned(changed, key, head=None):
    """A transcript of these records with new numbers, hashes and signatures by the holder of the key."""
    head, lines = head or Head(), []
    for record in changed:
        lines.append(records.make(head, {name: record[name] for name in record if name not in FIXED}, key))
        head = head.after(lines[-1])
    return "".join(line + "\n" for line in lines)


FIXED = ("number", "previous", "signature")
