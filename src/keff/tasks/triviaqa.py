"""TriviaQA: trivia questions, without their evidence by default; any alias is right."""

from __future__ import annotations

from dataclasses import replace

from keff.errors import TaskError
from keff.records import Item
from keff.task import Example, Row
from keff.tasks._base import Benchmark, DataSet, text


class TriviaQa(Benchmark):
    """TriviaQA; right is an answer with the canonical form of any alias.

    ``config`` is ``rc.nocontext``, or ``rc`` to add the evidence: encyclopedia pages and search results in
    their order, the first ``context_chars`` characters of them (whole pages are longer than most context
    windows). A question that appears twice (once from the web part, once from the encyclopedia part) has one
    cluster.
    Licence of the data: unknown (the paper: Apache-2.0).
    """

    name = "triviaqa"
    space = "text"
    space_options = (("match", "exact"),)
    family = "qa"
    repeats = True
    data_set = DataSet(
        "mandarjoshi/trivia_qa",
        "rc.nocontext",
        ("validation", "train"),
        ("question", "question_id", "answer"),
    )
    EXAMPLES = (
        Example("These are all onions.\n\nFinal answer: Onion", "Onion"),
        Example("The character was voiced by Ross Bagdasarian, who", None, truncated=True),
    )

    def __init__(
        self,
        data: str | None = None,
        split: str | None = None,
        template: str | None = None,
        config: str = "rc.nocontext",
        context_chars: int = 8000,
    ) -> None:
        if config not in ("rc.nocontext", "rc"):
            raise TaskError(f"triviaqa has the configs rc.nocontext and rc, not {config!r}")
        if config == "rc":
            columns = (*self.data_set.columns, "entity_pages", "search_results")
            self.data_set = replace(self.data_set, config=config, columns=columns, large=True)
        self.context_chars = context_chars
        super().__init__(data, split, template)

    def build(self, row: Row) -> Item:
        """Return the Item of a row with all columns."""
        question = f"Question: {text(row, 'question')}"
        if self.data_set.config == "rc":
            pages = (*row["entity_pages"]["wiki_context"], *row["search_results"]["search_context"])
            evidence = "\n\n".join(pages)[: self.context_chars]
            question = f"Context:\n{evidence}\n\n{question}"
        answer = row["answer"]
        references = (answer["value"], *answer["aliases"], *answer.get("normalized_aliases", ()))
        golds = [each for each in dict.fromkeys(references) if each.strip() and each != "<unk>"]
        return self.item(question, golds or None, id=text(row, "question_id"))


task = TriviaQa
