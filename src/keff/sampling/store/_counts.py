"""What a run holds, counted by the database in one pass over the paths."""

from __future__ import annotations

from keff.sampling.integrity import LONG

HELD = (
    "select (select count(*) from items) as items, "
    "count(*) filter (where error is null) as paths, "
    "count(*) filter (where error is not null) as errors, "
    "coalesce(sum(tokens), 0) as tokens, coalesce(sum(prompt_tokens), 0) as prompt_tokens, "
    "coalesce(sum(cached_tokens), 0) as cached_tokens from paths"
)

PAIRS = (
    "select coalesce(sum(same * (same - 1) / 2), 0) as identical, "
    "(select coalesce(sum(m * (m - 1) / 2), 0) from (select count(*) as m from paths "
    f"where error is null and tokens >= {LONG} group by item, slot)) as pairs from "
    f"(select count(*) as same from paths where error is null and tokens >= {LONG} "
    "group by item, slot, text)"
)

SIGNS = (
    "select count(*) filter (where error is null) as paths, "
    "count(*) filter (where finish = 'length') as truncated, "
    "count(*) filter (where error is not null) as failed, "
    "(select count(*) from scores where key is null) as unread from paths"
)

SCORED = (
    "select (select count(*) from paths) - (select count(*) from paths where error is not null) as kept, "
    "(select count(*) from scores where version = ?) as scored"
)

STALE = (
    "select distinct item from paths left join scores using (item, slot, path, attempt) "
    "where error is null and version is not ?"
)
