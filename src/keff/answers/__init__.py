"""Answer spaces: how a final answer is read from text, compared and scored, one file each."""

from __future__ import annotations

from keff.answers.parts.base import Extracted, Space, golds
from keff.answers.parts.fields import VotingFields, proposed_fields, schema_of, voting_fields
from keff.answers.parts.json_text import only_object
from keff.answers.parts.spec import LETTERS, from_command_line, names, of_unknown_options, space
from keff.answers.parts.strict_json import canonical_json, is_document
from keff.answers.parts.symbolic import limited, warm
from keff.answers.parts.trusted import key_spec, settle, trust
from keff.answers.parts.visible import strip_thinking
from keff.answers.parts.vote import ABSTAINED, Read, VoteCount, last_answer, once, read, tally, why

__all__ = [
    "ABSTAINED",
    "LETTERS",
    "SLOW_SPACES",
    "Extracted",
    "Read",
    "Space",
    "VoteCount",
    "VotingFields",
    "canonical_json",
    "from_command_line",
    "golds",
    "is_document",
    "key_spec",
    "last_answer",
    "limited",
    "names",
    "of_unknown_options",
    "once",
    "only_object",
    "proposed_fields",
    "read",
    "schema_of",
    "settle",
    "space",
    "strip_thinking",
    "tally",
    "trust",
    "voting_fields",
    "warm",
    "why",
]

# Answer spaces in which reading one answer may take long: it is done in a thread, so that requests go on.
SLOW_SPACES = frozenset({"math", "code", "sql", "python", "quantity", "key"})
