"""Programs read from completions such as models write."""

from __future__ import annotations

import pytest

from keff.answers import space

CODE = space("code")
F = "def f(x):\n    return x + 1"
G = "def g(x):\n    return 2 * x"

CORPUS = [
    (f"```python\n{F}\n```", F),
    (f"Here is it:\n\n```python\n{F}\n```\n\nIt adds one.", F),
    (f"```py\n{F}\n```", F),
    (f"```Python\n{F}\n```", F),
    (f"```python3\n{F}\n```", F),
    (f"```\n{F}\n```", F),
    (f"``` python\n{F}\n```", F),
    (f"```python\n{F}\n```\nBetter:\n```python\n{G}\n```", G),
    (f"```python\n{F}\n```\nUse it so:\n```python\nprint(f(1))\n```", F),
    (f"```python\n{F}\n```\nOutput:\n```text\n2\n```", F),
    (f"```python\n{F}\n```\n```bash\npython f.py\n```", F),
    (f"```python\n{F}", F),
    (f"{F}", F),
    (f"{F}\n\nThis function adds one to x.", F),
    (f"Sure! Here is the function.\n\n{F}", F),
    (f"[BEGIN]\n{F}\n[DONE]", F),
    (f"import math\n\n{F}", f"import math\n\n{F}"),
    (f"from math import sqrt\n{F}\n# done", f"from math import sqrt\n{F}\n# done"),
    (f"@cache\n{F}", f"@cache\n{F}"),
    ("class A:\n    pass", "class A:\n    pass"),
    (f"<think>```python\n{G}\n```</think>\n```python\n{F}\n```", F),
    (f"thinking\n```python\n{G}\n```</think>```python\n{F}\n```", F),
    (f"```python\r\n{F}\r\n```", F),
    (f"  ```python\n{F}\n  ```", F),
    ("```python\nprint(1)\n```", "print(1)"),
    ("```python\nx = 1\n```\nand\n```python\ny = 2\n```", "y = 2"),
    (f"```python title=a.py\n{F}\n```", F),
    ('```python\ndef f():\n    """Use `x`."""\n```', 'def f():\n    """Use `x`."""'),
    ("```python\n\n\n" + F + "\n\n\n```", F),
    (f"### Solution\n```python\n{F}\n```\n### Notes\nNone", F),
    ("async def f():\n    return 1", "async def f():\n    return 1"),
    (f"{F}\n\n\n{G}", f"{F}\n{G}"),
    (f"1. First:\n```python\n{F}\n```\n2. Test:\n```python\nassert f(1) == 2\n```", F),
    (f"{F}\n**Explanation:** it adds.", F),
    (f"{F}\n## Notes", F),
    (f"Answer:\n```python\n{F}\n```", F),
    ("```python\ndef f(s):\n    return s.split('\\n')\n```", "def f(s):\n    return s.split('\\n')"),
    # abstentions
    ("```javascript\nfunction f() {}\n```", None),
    ("I cannot write this.", None),
    ("```python\n```", None),
    ("```python\n\n\n```", None),
    (f"<think>```python\n{F}\n```", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "code"), CORPUS)
def test_reads_completions(text: str, code: str | None) -> None:
    found = CODE.extract(text)
    assert (found and CODE.key(found.answer)) == (code and CODE.key(code))


@pytest.mark.parametrize(
    ("text", "code"), [(f"```python\n{F}\n```\nThis", F), (f"```python\n{F}", None), (F, None)]
)
def test_truncated_text_gives_only_closed_blocks(text: str, code: str | None) -> None:
    found = CODE.extract(text, truncated=True)
    assert (found and found.answer) == code


def test_blank_lines_and_trailing_blanks_do_not_matter_and_indentation_does() -> None:
    assert CODE.key("def f():  \n\n    return 1\n") == CODE.key("def f():\n    return 1")
    assert CODE.key("if x:\n    y\nz") != CODE.key("if x:\n    y\n    z")
    assert CODE.correct(F + "\n\n", F)
    assert CODE.key(" \n") is None
