"""Write docs/help.md, and the names of docs/api.md, from the declarations of commands and functions.

python scripts/write_help.py
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import typer

import keff
from keff.cli import COMMANDS
from keff.cli._app import build
from keff.cli._serve_options import ServeSettings

PAGE = Path(__file__).resolve().parent.parent / "docs" / "help.md"
HEAD = """# Commands

Written by `python scripts/write_help.py` from the same declarations as `keff COMMAND --help`.

Every command exits 0 on success, 2 on wrong use or bad input (one line, no traceback), 1 on a failure while
running. With `--json` stdout holds one JSON object and nothing else; progress and warnings go to stderr.
"""

API = PAGE.with_name("api.md")
NAMES = re.compile(r"(?<=\| name \| is \|\n\|---\|---\|\n).*?(?=\n\n)", re.DOTALL)

EXAMPLE = "Example: "

SETTINGS = """## Settings of keff serve

`--set NAME=VALUE`, a variable `KEFF_NAME`, or a line of the file of `--config`; the first
wins. A list is given by `--set` more than once.

| | | default |
|---|---|---|
"""


def page() -> str:
    """Return the whole page."""
    rows = "\n".join(f"| [`keff {name}`](#keff-{name}) | {_lines(name)[0]} |" for name in COMMANDS)
    settings = "\n".join(
        f"| `{name}` | {field.description} | `{field.default}` |"
        for name, field in ServeSettings.model_fields.items()
    )
    parts = [
        HEAD,
        f"| command | does |\n|---|---|\n{rows}\n",
        *map(_section, COMMANDS),
        SETTINGS + settings + "\n",
    ]
    return "\n".join(parts)


def _lines(name: str) -> list[str]:
    module = importlib.import_module("keff.cli").__file__
    file = Path(str(module)).parent / f"{name}.py"
    source = file if file.exists() else file.with_name(f"{name}_.py")
    return (ast.get_docstring(ast.parse(source.read_text("utf-8"))) or "").split("\n")


def _section(name: str) -> str:
    group: Any = typer.main.get_command(build([name]))
    parameters = [
        one for one in group.commands[name].params if one.name != "help" and not getattr(one, "hidden", False)
    ]
    places = [one for one in parameters if one.param_type_name == "argument"]
    usage = " ".join(["keff", name, *(_place(one) for one in places), "[OPTIONS]"])
    lines = list(filter(None, _lines(name)[1:]))
    examples = [line.removeprefix(EXAMPLE) for line in lines if line.startswith(EXAMPLE)]
    more = " ".join(line for line in lines if not line.startswith(EXAMPLE))
    text = f"## keff {name}\n\n{_lines(name)[0]} {more}".rstrip()
    table = "\n".join(_row(one) for one in parameters)
    uses = "\n".join([usage, *examples])
    return f"{text}\n\n```sh\n{uses}\n```\n\n| | | default |\n|---|---|---|\n{table}\n"


def _place(argument: Any) -> str:
    return (argument.metavar or argument.name.upper()) + ("..." if argument.nargs < 0 else "")


def _row(parameter: Any) -> str:
    names = parameter.metavar or parameter.name.upper()
    if parameter.param_type_name != "argument":
        flags = [*parameter.opts, *parameter.secondary_opts]
        names = ", ".join(f"`{one}`" for one in flags)
    else:
        names = f"`{names}`"
    default, told = parameter.default, getattr(parameter, "show_default", None)
    missing = (
        default is None
        or isinstance(default, bool)
        or default == []
        or callable(default)
        or type(default).__name__ == "Sentinel"
    )
    shown = told if isinstance(told, str) else "" if missing else f"`{default}`"
    shown = "required" if parameter.required else shown
    text = (getattr(parameter, "help", None) or "").replace("|", "\\|")
    return f"| {names} | {text} | {shown} |"


def api_page() -> str:
    """Return docs/api.md with its table of public names, in the page's order."""
    text = API.read_text("utf-8")
    names = re.findall(r"^::: keff\.(\w+)$", text, re.MULTILINE)
    return NAMES.sub(lambda _: "\n".join(map(_name_row, names)), text)


def _name_row(name: str) -> str:
    what = getattr(keff, name)
    call = f"keff.{name}"
    if inspect.isfunction(what):
        bare = [each.replace(annotation=each.empty) for each in inspect.signature(what).parameters.values()]
        call += str(inspect.Signature(bare))
    first = " ".join((inspect.getdoc(what) or "").split("\n\n")[0].split())
    return f"| `{call}` | {first.replace('``', '`')} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    API.write_text(api_page(), encoding="utf-8")
