"""Named keys: who asks, what each may spend per day, and what the operator sees of it."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from app_rig import until
from fault_server import Script
from gateway_rig import QUESTION, Options, Rig, gateway
from keff.errors import UsageError
from keff.gateway.accounts import accounts as accounting
from keff.gateway.accounts.accounts import Account, AccountLedger, Balance, Reservation, read_accounts
from keff.sampling.cost import Price

Serve = Callable[..., Rig]
SEVEN = Script(answer=lambda *_: "The answer is 7.")


def client(name: str, **limits: Any) -> Account:
    return Account(name, hashlib.sha256(f"key-of-{name}".encode()).digest(), **limits)


def as_key(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer key-of-{name}"}


@pytest.fixture
def noon(monkeypatch: pytest.MonkeyPatch) -> float:
    """Stop the clock of the spend at the noon of some day (UTC)."""
    now = 20_000 * 86_400 + 43_200.0
    monkeypatch.setattr(accounting.time, "time", lambda: now)
    return now


def test_a_key_over_its_limit_is_told_when(serve: Serve, tmp_path: Path, noon: float) -> None:
    clients = (client("alice", paths=4), client("bob"))
    rig = serve(SEVEN, options=Options(accounts=clients), spend=tmp_path / "spend.sqlite")
    assert rig.post().status_code == 401
    assert rig.post(headers={"authorization": "Bearer wrong"}).status_code == 401
    assert [rig.post(headers=as_key("alice")).status_code for _ in range(3)] == [200, 200, 429]
    refused = rig.post(headers={"x-api-key": "key-of-alice"})
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "43200"
    assert refused.json()["error"]["code"] == "key_limit_reached"
    assert "6 of 4 paths" in refused.json()["error"]["message"]
    assert rig.post(headers=as_key("bob")).status_code == 200
    with pytest.raises(openai.RateLimitError):
        rig.client(api_key="key-of-alice", max_retries=5).chat.completions.create(
            model="stub",
            messages=QUESTION,  # type: ignore[arg-type]
        )
    with closing(AccountLedger(tmp_path / "spend.sqlite")) as book:
        until(lambda: book.today("bob").requests == 1)
        assert (book.today("alice"), book.today("bob")) == (Balance(2, 6, 0.0), Balance(1, 3, 0.0))
    assert noon


def test_the_next_day_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book, alice = AccountLedger(tmp_path / "s"), client("alice", paths=4)
    held = book.reserve(alice, 4, 0.0)
    assert isinstance(held, Reservation)
    book.settle(held, 4, 0.0)
    assert "4 of 4 paths" in str(book.reserve(alice, 1, 0.0))
    tomorrow = time.time() + 86_400
    monkeypatch.setattr(accounting.time, "time", lambda: tomorrow)
    over_midnight = book.reserve(alice, 3, 0.0)
    assert isinstance(over_midnight, Reservation)
    monkeypatch.setattr(accounting.time, "time", lambda: tomorrow + 86_400)
    book.settle(over_midnight, 2, 0.0)
    today = book.today("alice")
    book.close()
    assert today == Balance(), "what is drawn counts on the day on which it was reserved"


def test_dollars_are_limited_and_survive_a_restart(serve: Serve, tmp_path: Path) -> None:
    options = Options(accounts=(client("alice", dollars=2.0),), prices={"": Price(prompt=0, output=1e6 / 4)})
    deployed: dict[str, Any] = {"options": options, "spend": tmp_path / "spend.sqlite"}
    first = serve(Script(answer=lambda *_: "The answer is 7."), **deployed)
    assert first.post(headers=as_key("alice")).status_code == 200
    book = AccountLedger(tmp_path / "spend.sqlite")
    until(lambda: book.today("alice").dollars > 0)  # what requests cost is entered together, soon
    book.close()
    again = serve(Script(answer=lambda *_: "The answer is 7."), **deployed)
    refused = again.post(headers=as_key("alice"))
    assert refused.status_code == 429
    assert "of 2 dollars" in refused.json()["error"]["message"]


def test_what_is_passed_through_counts_as_one_path(serve: Serve, tmp_path: Path) -> None:
    options = Options(accounts=(client("alice", paths=5),), admin_token="op")
    rig = serve(SEVEN, options=options, spend=tmp_path / "spend.sqlite")
    assert httpx2.get(f"{rig.url}/files", headers=as_key("alice")).status_code == 404
    assert rig.service.billing.ledger is not None
    assert httpx2.get(f"{rig.url}/models", headers=as_key("alice")).status_code == 200
    rig.post(headers=as_key("alice"))
    metrics = rig.url.removesuffix("/v1") + "/metrics"
    assert httpx2.get(metrics, headers=as_key("alice")).status_code == 403
    assert httpx2.get(metrics).status_code == 401
    text = httpx2.get(metrics, headers={"authorization": "Bearer op"}).text
    assert 'keff_key_paths_total{key="alice"} 3.0' in text
    assert 'keff_key_requests_total{key="alice"} 3.0' in text


def test_a_ledger_that_cannot_be_written_stops_only_keys_with_limits(serve: Serve, tmp_path: Path) -> None:
    accounts = (client("alice", paths=100), client("bob"))
    file, options = tmp_path / "spend.sqlite", Options(accounts=accounts, token="t")
    rig = serve(SEVEN, options=options, spend=file)
    with closing(sqlite3.connect(file, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        refused = rig.post(headers=as_key("alice"))
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "account_unavailable")
        assert rig.post(headers=as_key("bob")).status_code == 200
        metrics, operator = rig.url.removesuffix("/v1") + "/metrics", {"authorization": "Bearer t"}
        until(lambda: "keff_spend_errors_total 1.0" in httpx2.get(metrics, headers=operator).text)


def test_two_processes_share_one_book(tmp_path: Path) -> None:
    file, alice = tmp_path / "s", client("alice")
    with closing(AccountLedger(file)) as one, closing(AccountLedger(file)) as two:
        for _ in range(50):
            for book, paths, dollars in ((one, 1, 0.5), (two, 2, 0.25)):
                held = book.reserve(alice, 9, 9.0)
                assert isinstance(held, Reservation)
                book.settle(held, paths, dollars)
        assert one.today("alice") == two.today("alice") == Balance(100, 150, 37.5)


def test_a_book_of_the_version_before_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "s")) as db, db:
        db.execute(
            "CREATE TABLE spend (day INTEGER NOT NULL, key TEXT NOT NULL, requests INTEGER NOT NULL, paths "
            "INTEGER NOT NULL, dollars REAL NOT NULL, PRIMARY KEY (day, key)) STRICT, WITHOUT ROWID"
        )
        db.execute("PRAGMA user_version = 1")
    db.close()
    with pytest.raises(UsageError, match="--set spend=FILE"):
        AccountLedger(tmp_path / "s")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("keys = 3", "keys"),
        ("[keys]", "keys"),
        ("[keys.a]", "sha256 or env"),
        ('[keys.a]\nsha256 = "12"', "sha256"),
        ('[keys.a]\nenv = "KEFF_NO_SUCH"', "keys.a: env KEFF_NO_SUCH: the environment has no such variable"),
        (f'[keys.a]\nsha256 = "{"0" * 64}"\npaths_per_day = 0', "paths_per_day"),
        (f'[keys.a]\nsha256 = "{"0" * 64}"\ndollars_per_day = inf', "dollars_per_day"),
        (f'[keys.a]\nsha256 = "{"0" * 64}"\npaths = 3', "keys.a.paths"),
        (f'[keys.a]\nsha256 = "{"0" * 64}"\n[keys.b]\nsha256 = "{"0" * 64}"', "same key"),
        (f'[keys.a]\nsha256 = "{hashlib.sha256(b"").hexdigest()}"', "empty key"),
        (f'[keys."a b"]\nsha256 = "{"0" * 64}"', "no name"),
        ("[keys", "TOML"),
    ],
)
def test_a_wrong_key_file_is_refused_with_one_line(tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "keys.toml").write_text(text)
    with pytest.raises(UsageError, match=line) as caught:
        read_accounts(tmp_path / "keys.toml")
    assert "\n" not in str(caught.value)


def test_a_key_file_need_not_hold_the_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOBS_KEY", "key-of-bob\n")
    digest = hashlib.sha256(b"key-of-alice").hexdigest()
    limits = "paths_per_day = 10\ndollars_per_day = 2"
    text = f'[keys.alice]\nsha256 = "{digest}"\n{limits}\n[keys.bob]\nenv = "BOBS_KEY"\n'
    (tmp_path / "keys.toml").write_text(text)
    assert read_accounts(tmp_path / "keys.toml") == (client("alice", paths=10, dollars=2.0), client("bob"))
    with pytest.raises(UsageError, match=r"none\.toml: No such file"):
        read_accounts(tmp_path / "none.toml")


def test_limits_in_dollars_need_prices_and_a_book_of_this_version(tmp_path: Path) -> None:
    limited = Options(accounts=(client("alice", dollars=1.0),))
    with pytest.raises(UsageError, match="--prices"), gateway("http://127.0.0.1:9", options=limited):
        pass
    AccountLedger(tmp_path / "s").close()
    with closing(sqlite3.connect(tmp_path / "s")) as db, db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(UsageError, match="another version"):
        AccountLedger(tmp_path / "s")
    (tmp_path / "t").write_text("no database at all, only a text of some length")
    with pytest.raises(UsageError, match="--set spend=FILE"):
        AccountLedger(tmp_path / "t")
