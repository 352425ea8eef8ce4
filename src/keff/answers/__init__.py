"""Answer spaces: how a final answer is read from text, compared and scored, one file each.

In: a completion's text and a gold answer. Out: an answer, its vote key, and whether it is right.
Read ``parts.base`` (the interface), then ``numeric`` (a typical space).
"""

from __future__ import annotations

from keff.answers.parts.base import Extracted, Space, golds
from keff.answers.parts.fields import (
    ABSTAINED,
    UNREAD,
    Read,
    VotingFields,
    last_answer,
    once,
    proposed_fields,
    read,
    schema_of,
    stated_gold,
    voting_fields,
    why,
)
from keff.answers.parts.json_text import ANSWER_MEMBERS, canonical_json, is_document, only_object
from keff.answers.parts.no_answer import bare, says_none
from keff.answers.parts.spec import (
    LETTERS,
    choice_of,
    from_command_line,
    keeping,
    names,
    of_unknown_options,
    options_listed,
    space,
)
from keff.answers.parts.thinking import strip_thinking, unknown_mark
from keff.answers.parts.workers import Lane, UnreadError, key_spec, reading_in, settle, trust, warm

__all__ = [
    "ABSTAINED",
    "ANSWER_MEMBERS",
    "LETTERS",
    "SLOW_SPACES",
    "UNREAD",
    "Extracted",
    "Lane",
    "Read",
    "Space",
    "UnreadError",
    "VotingFields",
    "bare",
    "canonical_json",
    "choice_of",
    "from_command_line",
    "golds",
    "is_document",
    "keeping",
    "key_spec",
    "last_answer",
    "names",
    "of_unknown_options",
    "once",
    "only_object",
    "options_listed",
    "proposed_fields",
    "read",
    "reading_in",
    "says_none",
    "schema_of",
    "settle",
    "space",
    "stated_gold",
    "strip_thinking",
    "trust",
    "unknown_mark",
    "voting_fields",
    "warm",
    "why",
]

# Answer spaces in which reading one answer may take long: it is done in a thread, so that requests go on.
SLOW_SPACES = frozenset({"math", "code", "sql", "quantity", "key"})
