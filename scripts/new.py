"""Begin a task, an engine, a policy, a log format or an answer space from its example in docs/extending.

python scripts/new.py KIND NAME     (make new KIND=policy NAME=two_ahead)

The file goes to its folder under NAME; the contract suite finds it there and holds it to what every other of
its kind keeps. Change it from there.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from keff.plugins import PACKAGE, names

ROOT = Path(__file__).resolve().parent.parent
SUITE = {"space": "tests/answers/test_every_space.py"}
"""Where the contract of a kind lies that has no ``tests/test_every_KIND.py``."""


def example(kind: str) -> tuple[str, str]:
    """Return the example of a kind, and its name: that of its file in the guide."""
    page = (ROOT / "docs" / "extending" / f"{kind}.md").read_text("utf-8")
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    entry = re.search(r'^(\w+) = "[\w.]+:', page, re.MULTILINE)
    assert code is not None and entry is not None
    return code[1], entry[1]


def named(kind: str, name: str) -> str:
    """Return the example of a kind under another name."""
    code, old = example(kind)
    title = "".join(word.title() for word in name.split("_"))
    was = "".join(word.title() for word in old.split("_"))
    return re.sub(rf"\b{was}\b", title, re.sub(rf"\b{old}\b", name, code))


def main(kind: str, name: str, root: Path = ROOT) -> Path:
    """Write the file; raises SystemExit with one line where it cannot be."""
    if kind not in PACKAGE:
        raise SystemExit(f"new: KIND is one of {', '.join(PACKAGE)}, not {kind!r}")
    if not re.fullmatch("[a-z][a-z0-9_]*", name):
        raise SystemExit(f"new: NAME is a module name such as two_ahead, not {name!r}")
    file = root / "src" / "keff" / PACKAGE[kind] / f"{name}.py"
    if file.exists() or name in names(kind):
        raise SystemExit(f"new: there is a {kind} {name} already")
    file.write_text(named(kind, name), "utf-8")
    suite = SUITE.get(kind, f"tests/test_every_{kind}.py")
    print(f"{file.relative_to(root)}: change it, and run pytest {suite} -k {name}")
    return file


if __name__ == "__main__":
    main(*(sys.argv[1:3] if len(sys.argv) > 2 else ("", "")))
