"""A gateway in a thread, for tests: the real application on the real server, before any upstream."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx2
import numpy as np
import openai
import uvicorn

from keff.gateway.deployment import Deployment, service_of, views_of
from keff.gateway.http.app import application
from keff.gateway.http.security import Guard
from keff.gateway.options import Options as ServedOptions
from keff.gateway.server import http_config
from keff.gateway.service import Service
from keff.gateway.traffic.ledger import TrafficLedger
from keff.gateway.traffic.monitor import Monitor
from keff.gateway.traffic.pages import Views
from keff.gateway.upstream.answer import Address
from keff.plan import Plan, Profile
from thread_server import serving

# 100 questions of 4 paths: of 60 all agree, of 3 none.
PROFILE = Profile(
    paths=4, votes=((4,),) * 60 + ((3, 1),) * 20 + ((2, 2),) * 10 + ((2, 1, 1),) * 7 + ((1, 1, 1, 1),) * 3
)
SAMPLING = {"temperature": 0.7, "top_p": 0.95, "max_tokens": 64, "stop": [], "seed": 0, "thinking": None}
ENGINE = {"engine": "openai", "model": "stub", "extra_body": {}, "omit": [], "thinking": "template"}
# No request is drawn on but where a test says so.
Options = partial(ServedOptions, shadow_budget=0.0)
QUESTION = [{"role": "user", "content": "What is 6 times 7?"}]


def make_plan(policy: str = "lead_k:3", **fields: Any) -> Plan:
    """Return a plan for numeric answers of the model ``stub``."""
    given: dict[str, Any] = {
        "space": "numeric",
        "task": {"name": "gsm8k", "options": {"name": "gsm8k"}},
        "config": {"engine": ENGINE, "task": {}, "sampling": SAMPLING, "templates": [0]},
        "estimates": {},
        "profile": PROFILE,
    }
    return Plan(policy=policy, **(given | fields))


@dataclass
class Rig:
    """A running gateway: its base URL, the service inside, and what is closed when it ends."""

    url: str
    service: Service
    closed_after: ExitStack

    @property
    def ledger(self) -> TrafficLedger:
        """What the gateway has learned."""
        return self.service.ledger

    @property
    def views(self) -> Views:
        """The operator's pages."""
        return views_of(self.service)

    @property
    def monitor(self) -> Monitor | None:
        """The drift alarm."""
        return self.ledger.monitor

    def client(self, **options: Any) -> openai.OpenAI:
        """Return the official client, told nothing but the address."""
        # Closed by the test that asked for it: the garbage collector would close its socket in any other.
        return self.closed_after.enter_context(
            openai.OpenAI(base_url=self.url, **({"api_key": "none", "max_retries": 0} | options))
        )

    def post(self, body: Any = None, **options: Any) -> httpx2.Response:
        """Post a chat request: by default the question to the plan's model."""
        if "content" not in options:
            options["json"] = body if body is not None else {"model": "stub", "messages": QUESTION}
        return httpx2.post(f"{self.url}/chat/completions", timeout=60, **options)

    def metric(self, series: str) -> float:
        """Return one number of ``/metrics``."""
        text = httpx2.get(self.url.removesuffix("/v1") + "/metrics").text
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(series))


@contextmanager
def gateway(
    upstream: str | None, plan: Plan | None = None, *, planless: bool = False, **fields: Any
) -> Iterator[Rig]:
    """Run a gateway on a free port; ``fields`` are settings or those of Deployment.

    ``planless`` serves no plan. Without an upstream every branch of the plan has its own.
    """
    key = fields.pop("key", "")
    seconds = fields.pop("path_seconds", 20.0)
    limits: dict[str, Any] = {"path_seconds": seconds, "connections": 2048, "more": fields.pop("more", ())}
    limits["ca_file"] = fields.pop("ca_file", "")
    settings = {name: fields.pop(name) for name in ServedOptions.model_fields.keys() & fields.keys()}
    options = fields["options"] = fields.get("options", Options()).model_copy(update=settings)
    address = None if upstream is None else Address(url=upstream, key=key, **limits)
    made: list[Service] = []

    def configure() -> uvicorn.Config:
        # Made in the thread that uses it, as sqlite wants.
        deployment = Deployment(plan=None if planless else plan or make_plan(), address=address, **fields)
        service = service_of(deployment, np.random.default_rng(0))
        made.append(service)
        views = views_of(service)
        guard = Guard(options.token, options.admin_token, options.client_keys, options.cors_origin)
        return http_config(application(service, guard, views.show, views.beside), drain=5)

    with serving(configure) as url, ExitStack() as clients:
        yield Rig(f"{url}/v1", made[0], clients)


@contextmanager
def served(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """Run ``keff serve`` in a process of its own; gives the process and the first line of its log."""
    command = [sys.executable, "-m", "keff", "serve", *map(str, arguments), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield process, json.loads(process.stderr.readline())
        except BaseException:
            process.kill()  # else what failed waits for a process that nobody stops
            raise
