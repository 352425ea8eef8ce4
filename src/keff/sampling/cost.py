"""What paths cost: a price table in TOML, and the dollars of a run."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from keff.errors import UsageError

MILLION = 1_000_000


class Price(BaseModel):
    """Dollars per million tokens of one model: prompt, cached prompt (default: as prompt), and output.

    ``path`` is dollars per path and ``second`` dollars per second that a path runs, beside them: what one's
    own machines cost, or records that count no tokens. Either stands without prices per token.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    prompt: float = Field(default=0, ge=0)
    output: float = Field(default=0, ge=0)
    cached: float | None = Field(default=None, ge=0)
    path: float = Field(default=0, ge=0)
    second: float = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        missing = [name for name in ("prompt", "output") if name not in self.model_fields_set]
        if missing and not {"path", "second"} & self.model_fields_set:
            raise ValueError(f"{' and '.join(missing)} missing")
        return self


FREE = Price(prompt=0, output=0)
"""What paths cost that an engine draws on the user's own machine (``Engine.local``)."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that were billed: the prompts, the cached part of them, and the output."""

    prompt: int = 0
    cached: int = 0
    output: int = 0

    def dollars(self, price: Price) -> float:
        """Return (prompt - cached) p + cached q + output r, with prices per million tokens."""
        cached = price.prompt if price.cached is None else price.cached
        return (
            (self.prompt - self.cached) * price.prompt + self.cached * cached + self.output * price.output
        ) / MILLION


def read_prices(file: Path) -> dict[str, Price]:
    """Read a price table: one ``["model name"]`` section per model with prompt, output and cached.

    Raises UsageError when the file is missing, not TOML, or holds something else.
    """
    try:
        table = tomllib.loads(file.read_text("utf-8"))
        return {model: Price.model_validate(price) for model, price in table.items()}
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not TOML: {error}") from None
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        raise UsageError(
            f"{file}: a price needs prompt and output in dollars per million tokens, or path, or second: "
            f"{where} {problem['msg']}"
        ) from None


def price_of(model: str | None, prices: Mapping[str, Price]) -> Price | None:
    """Return the price of a model: its own, else that of the longest name that begins its name, else None."""
    fitting = [name for name in prices if model is not None and model.startswith(name)]
    return prices[max(fitting, key=len)] if fitting else None
