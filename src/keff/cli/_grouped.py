"""Groups of options: a dataclass among the parameters of a command stands for its fields."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass


def grouped(
    *, without: Sequence[str] = (), **own: tuple[object, object]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the fields of every dataclass among its parameters as options, in their place.

    ``without`` names fields, or parameter.field, that stay as they are by default; ``own`` gives a field the
    command's own declaration and default.
    """

    def members(name: str, group: type) -> list[inspect.Parameter]:
        fields = inspect.signature(group, eval_str=True).parameters.values()
        kept = [field for field in fields if not {field.name, f"{name}.{field.name}"} & set(without)]
        chosen = [own.get(field.name, (field.annotation, field.default)) for field in kept]
        return [
            field.replace(annotation=annotation, default=default)
            for field, (annotation, default) in zip(kept, chosen, strict=True)
        ]

    def give(command: Callable[..., None]) -> Callable[..., None]:
        groups: dict[str, tuple[Callable[..., object], list[str]]] = {}
        options: list[inspect.Parameter] = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation):
                expanded = members(parameter.name, parameter.annotation)
                groups[parameter.name] = parameter.annotation, [option.name for option in expanded]
                options += expanded
            else:
                options.append(parameter)

        def with_groups(**given: object) -> None:
            made = {
                name: group(**{field: given.pop(field) for field in fields if field in given})
                for name, (group, fields) in groups.items()
            }
            command(**made, **given)

        options = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]
        with_groups.__signature__ = inspect.Signature(options)  # pyright: ignore[reportFunctionMemberAccess]
        with_groups.__annotations__ = {option.name: option.annotation for option in options}
        with_groups.__doc__ = command.__doc__
        return with_groups

    return give
