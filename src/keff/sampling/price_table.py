"""Price tables in TOML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from keff.errors import UsageError
from keff.files import toml_of
from keff.sampling.cost import Price


class _Row(BaseModel):
    """One model's prices as written in the file."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    prompt: float = Field(default=0, ge=0)
    output: float = Field(default=0, ge=0)
    cached: float | None = Field(default=None, ge=0)
    path: float = Field(default=0, ge=0)
    second: float = Field(default=0, ge=0)
    cancelled: Literal["stops", "whole"] = "stops"

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        missing = [name for name in ("prompt", "output") if name not in self.model_fields_set]
        if missing and not {"path", "second"} & self.model_fields_set:
            raise ValueError(f"{' and '.join(missing)} missing")
        return self


def read_prices(file: Path) -> dict[str, Price]:
    """Return the prices of a TOML file with one ``["model name"]`` section per model.

    Raises UsageError when the file is missing, not TOML, or holds something else.
    """
    return prices_of(toml_of(file), str(file))


def prices_of(table: Mapping[str, object], name: str) -> dict[str, Price]:
    """Return prices by model from a table; raises UsageError that names a wrong one."""
    try:
        return {
            model: price if isinstance(price, Price) else Price(**_Row.model_validate(price).model_dump())
            for model, price in table.items()
        }
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        raise UsageError(
            f"{name}: a price needs prompt and output in dollars per million tokens, or path, or second: "
            f"{where} {problem['msg']}"
        ) from None
