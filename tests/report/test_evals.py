"""The pages of noise, compare and audit: what a record says is escaped, and the picture is there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jinja2")

from keff.analysis.arms import Comparing, compare
from keff.analysis.audit import audit
from keff.analysis.scores import contest, noise
from keff.log import LogInfo, Question
from keff.reading.ballot import ballot
from keff.reading.open import Opening, Record, reading
from keff.reading.repeated import as_scored, of_rows
from keff.report.evals import write_audit_page, write_comparison_page, write_noise_page

HOSTILE = "<script>alert(1)</script>"


def record(seed: int) -> Record:
    rng = np.random.default_rng(seed)
    questions = [
        Question(f"q{i}{HOSTILE}", tuple(rng.choice([HOSTILE, "1"], 4)), gold="1", question=HOSTILE)
        for i in range(20)
    ]
    info = LogInfo(model=HOSTILE)
    return Record(HOSTILE, info, ballot(questions, reading(info, Opening())))


def test_pages_have_one_picture_and_escape_what_a_record_says(tmp_path: Path) -> None:
    one, two = record(1), record(2)
    scored = [as_scored(one), as_scored(two)]
    compared = contest(scored)
    write_noise_page([(HOSTILE, noise(scored[0]))], tmp_path / "noise.html")
    write_comparison_page(compared, tmp_path / "compare.html")
    write_comparison_page(compare(one, two, Comparing(replicates=100)), tmp_path / "arms.html")
    assert "mean pairwise rho" in (tmp_path / "arms.html").read_text()
    write_audit_page(audit([one, two]), [one, two], tmp_path / "audit.html")
    for file in tmp_path.iterdir():
        text = file.read_text()
        assert "<script" not in text and text.count('role="img"') == (file.stem != "audit"), file.name
        assert "&lt;script&gt;" in text
        assert file.stem == "audit" or "95%" in text or "80% power" in text


def test_one_repeat_has_no_picture_and_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    found = noise(of_rows([[1], [0]] * 10))
    write_noise_page([("x", found)], tmp_path / "noise.html")
    assert "<svg" not in (tmp_path / "noise.html").read_text()
    with pytest.raises(OSError, match="nowhere"):
        write_noise_page([("x", found)], tmp_path / "nowhere" / "noise.html")


def test_a_suspect_opens_on_the_answers_and_texts_of_every_model(tmp_path: Path) -> None:
    """Four paths of two models agree on 8 where gold is 7; the fifth of each says nothing."""
    given, texts = ("8", "8", "8", "8", None), ("It is 8.",) * 4 + (f"No idea. {HOSTILE}",)
    records: list[Record] = []
    for model, texted in (("with", texts), ("without", None)):
        asked = [Question("odd", given, gold="7", texts=texted), Question("even", ("7",) * 5, gold="7")]
        info = LogInfo(model=model)
        records.append(Record(model, info, ballot(asked, reading(info, Opening()))))
    write_audit_page(audit(records), records, tmp_path / "audit.html")
    page = (tmp_path / "audit.html").read_text()
    assert [page.count(each) for each in ("<strong>with</strong>", "<strong>without</strong>", "4 × 8")] == [
        1,
        1,
        2,
    ]
    assert page.count("1 × no answer") == 2 and page.count("Texts of the 5 paths") == 1
    assert page.count("It is 8.") == 4 and "<script" not in page and "&lt;script&gt;" in page
