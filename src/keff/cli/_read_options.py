"""Options and arguments that say what is read and how, each declared once.

A command picks the declaration whose help is true for it and states its own default. Where nothing is given
and something is worked out, ``show_default`` says what.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from keff.answers import from_command_line, key_spec, trust
from keff.usercode import UserCode

RECORD = "How the record is read"
TaskName = Annotated[
    str,
    typer.Argument(metavar="TASK", help="A benchmark (keff list tasks), starter, or your own file.jsonl."),
]
Paths = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH...", help="Run folders or logs; PATH#PART is one record of several.", show_default=False
    ),
]
ReplayPath = Annotated[
    str, typer.Argument(metavar="PATH", help="A run folder or a recorded log; PATH#SLOT, PATH#PART.")
]
CombinePath = Annotated[str, typer.Argument(metavar="PATH", help="A run or log; PATH#SLOTS or PATH#PART.")]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
RunOrLog = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder or a recorded log; PATH#PART.")]
LogFile = Annotated[Path, typer.Argument(metavar="LOG", help="A recorded log in any format that keff reads.")]
PublishedFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the published records.")]
StudyFile = Annotated[Path, typer.Argument(metavar="FILE", help="The study file (TOML).")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME[:OPTIONS]",
        help="Format of the log, with its options: inspect_ai:scorer=match,threshold=0.5.",
        show_default="auto-detected",
        rich_help_panel=RECORD,
    ),
]
AnswerSpaceName = Annotated[
    str | None,
    typer.Option(
        "--answer-space",
        metavar="NAME[:OPTIONS]",
        help="How answers are read and compared (keff list spaces), such as numeric or json:fields=a,b.",
        rich_help_panel=RECORD,
    ),
]
AnswerKey = Annotated[
    str | None,
    typer.Option(
        "--answer-key",
        metavar="FILE.py:FUNCTION",
        help="Your own function, answer -> vote key (str or None); needed again by every command.",
        rich_help_panel=RECORD,
    ),
]
Trim = Annotated[
    int | None,
    typer.Option(
        "--trim", min=1, help="Use the first K paths; leave out questions with fewer.", rich_help_panel=RECORD
    ),
]
Partial = Annotated[
    bool,
    typer.Option(
        "--partial", help="Take a run that was broken off as it is, and say so.", rich_help_panel=RECORD
    ),
]
Rescore = Annotated[
    bool,
    typer.Option(
        "--rescore", help="Find again which answers are right, whatever the log says.", rich_help_panel=RECORD
    ),
]
Pool = Annotated[
    bool, typer.Option("--pool", help="Read several PATHs as one record.", rich_help_panel=RECORD)
]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="WORD=COLUMN,...",
        help="Columns of a table, such as id=question_id,answer=prediction,correct=is_right,model=model.",
        rich_help_panel=RECORD,
    ),
]
BranchNames = Annotated[
    str | None,
    typer.Option(
        "--branches",
        metavar="NAMES.json|A,B,C",
        help="Names of the models or prompts whose paths are the columns of the record.",
        rich_help_panel=RECORD,
    ),
]


def reading_of(answer_space: str | None, answer_key: str | None) -> str | None:
    """Return the answer space that the two flags name together; trusts the function of ``--answer-key``."""
    spec = None if answer_space is None else from_command_line(answer_space)
    if answer_key is None:
        return spec
    return key_spec(trust(UserCode.parse(answer_key, "answer key")), spec)
