"""Write docs/atlas from recorded generations: ``python scripts/write_atlas.py FOLDER [-o docs/atlas]``.

FOLDER holds records of the sources below, one JSON line per question, as `keff analyze` reads them. Only
derived numbers are written.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from atlas import FORMAT, About, Atlas, AtlasEntry, Source, draw_atlas, measure, write_atlas

from keff.reading.open import Opening, open_record

VERSION = "2 (November 2026)"
CITATION = (
    "The keff authors: *Atlas of measured correlations of self-consistency paths*, version 2 "
    "(November 2026), in keff 0.4.0. The estimators follow G. Yu et al., *Diversity Combining for Multi-Path "
    "LLM Reasoning*: please cite the paper, and the source of a record, too (`CITATION.cff`)."
)
TEMPERATURES = "Six temperatures from 0.5 to 1.0, ten paths each, are read as one pool."
SOURCES = {
    "boinf": Source(
        "Best-of-Infinity",
        "https://github.com/jkomiyama/BoInf-code-publish",
        "fbcb0970b0e235e9e5d8d7f5f1a6c81fe96d259c",
        "MIT (stated in its README)",
        "Final answers and completion tokens, ICLR 2026.",
    ),
    "renze": Source(
        "LLM temperature study, M. Renze",
        "https://github.com/matthewrenze/jhu-llm-temperature",
        "b00cfb652897e8bdc28c63234def9b490fa84cfb",
        "BSD-2-Clause",
        f"Multiple-choice exams of 100 questions. {TEMPERATURES}",
    ),
    "cruxeval": Source(
        "CRUXEval",
        "https://github.com/crux-eval/crux-eval.github.io",
        "bbca8150320397859dbb3c359fbb6a885b1d9a3f",
        "MIT",
        "800 questions about programs, ten samples each, scored by execution.",
    ),
    "game24": Source(
        "Tree of Thoughts, Game of 24",
        "https://github.com/princeton-nlp/tree-of-thought-llm",
        "ab400345c5ea39d28ea6d7d3be0e417b11113c87",
        "MIT",
        "Answers are expressions: different right ones do not vote together.",
    ),
    "faithfulcot": Source(
        "Faithful CoT, date understanding",
        "https://github.com/veronica320/Faithful-COT",
        "301784317c99cf348cfad92a1b3e8810900e095b",
        "MIT",
    ),
    "verifycot": Source(
        "Natural Program, date understanding",
        "https://github.com/lz1oceani/verify_cot",
        "b458aa02880d9be95ab1d702277081c781e880cb",
        "CC BY 4.0",
    ),
    "qwen25math": Source(
        "Qwen2.5-Math evaluation",
        "https://github.com/QwenLM/Qwen2.5-Math",
        "a45202bd16f1ec06f433442dc1152d0074773465",
        "MIT",
    ),
    "rankedvoting": Source(
        "Ranked Voting SC, CommonsenseQA",
        "https://github.com/szu-tera/RankedVotingSC",
        "f98f427d042937e35119defb273323f97f739b5d",
        "MIT",
        "First choices of ranked answers.",
    ),
    "woc": Source(
        "Wisdom of the crowd, ASDiv",
        "https://github.com/hwelsters/wisdom-of-crowd-llm",
        "33791c5d86a9077b5586c62df7a08305932d6827",
        "CC0-1.0",
        "The answer is the last number of the reply.",
    ),
    "codet": Source(
        "CodeT, HumanEval",
        "https://github.com/microsoft/CodeT",
        "35f54d60b152cc31d134b788e702878ad613d9f7",
        "MIT",
        "Answers are whole programs: right ones do not vote together.",
    ),
}
"""Sources whose licence lets numbers be published. One greedy answer each of many models is no workload."""

TITLES = {
    "aime2024": "AIME 2024",
    "aime2025": "AIME 2025",
    "gpqa_diamond": "GPQA Diamond",
    "math500": "MATH-500",
    "arc-challenge-test-100": "ARC-Challenge (100)",
    "comprehensive-100": "Ten exams mixed (100)",
    "lsat-ar-100": "LSAT, analytical (100)",
    "lsat-lr-100": "LSAT, logical (100)",
    "medmcqa-dev-100": "MedMCQA (100)",
    "sat-en-100": "SAT English (100)",
}
SHORT = {
    "faithfulcot": ("Date understanding", "code-davinci-002", "least-to-most"),
    "verifycot": ("Date understanding", "gpt-3.5-turbo", "natural program"),
    "qwen25math": ("MATH (100)", "Qwen2.5-Math", ""),
    "rankedvoting": ("CommonsenseQA", "gpt-3.5-turbo", "ranked answers"),
    "woc": ("ASDiv", "gpt-3.5-turbo-0301", ""),
    "codet": ("HumanEval", "CodeGen-16B", "T 0.8"),
}


def about(stem: str) -> About | None:
    """Return what a file's name says of its record; None for a record that is not of the atlas."""
    source, _, rest = stem.partition("_")
    if source not in SOURCES:
        return None
    data, model, setting = SHORT.get(source) or _named(source, rest)
    return About(stem, model, data, setting, source)


def _named(source: str, rest: str) -> tuple[str, str, str]:
    if source == "boinf":
        data = next(name for name in TITLES if rest.startswith(name))
        return TITLES[data], rest.removeprefix(f"{data}_"), ""
    if source == "renze":
        data, model, prompt = re.fullmatch(r"([^_]+)_([^_]+)_(\w+)", rest).groups()  # type: ignore[union-attr]
        return TITLES.get(data, data), model, prompt.replace("_", " ")
    if source == "cruxeval":
        kind, model, temperature = re.fullmatch(r"(\w+?)_(.+)_t([\d.]+)", rest).groups()  # type: ignore[union-attr]
        name, _, cot = model.partition("+")
        return f"CRUXEval, {kind}", name, f"{'chain of thought, ' if cot else ''}T {temperature}"
    return "Game of 24", *rest.split("_", 1)  # type: ignore[return-value]


def lines(folder: Path, only: list[str] | None = None) -> list[AtlasEntry]:
    """Return the line of every record of the atlas in a folder, or of those named in ``only``."""
    measured: list[AtlasEntry] = []
    for file in sorted(folder.glob("*.jsonl")):
        told = about(file.stem)
        if told is None or (only is not None and file.stem not in only):
            continue
        print(file.stem, file=sys.stderr)
        measured.append(measure(open_record(file, Opening()), told))
    return measured


def collection(entries: list[AtlasEntry]) -> Atlas:
    """Return the atlas of these lines with the sources that they name."""
    used = {entry.source: SOURCES[entry.source] for entry in entries}
    return Atlas(FORMAT, VERSION, CITATION, {}, ()).added(used, entries)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--out", type=Path, default=Path(__file__).parents[1] / "docs" / "atlas")
    parser.add_argument("--only", nargs="*", help="names of records, to try it out")
    given = parser.parse_args()
    atlas = collection(lines(given.folder, given.only))
    for file in write_atlas(atlas, given.out):
        print(file)
    names = {key: source.title for key, source in atlas.sources.items()}
    print(draw_atlas(atlas.entries, names, given.out / "atlas.svg"))


if __name__ == "__main__":
    main()
