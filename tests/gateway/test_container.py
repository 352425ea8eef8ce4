"""The container: the file says what it must, and its steps run in a clean folder where no Docker is."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from command_line import keff
from keff.gateway.traffic.metrics import COUNTERS, GAUGES, HISTOGRAMS

ROOT = Path(__file__).resolve().parents[2]
LINES = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text()).splitlines()
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
STEPS = [tuple(line.split(None, 1)) for line in LINES if line.strip() and not line.startswith("#")]


def steps(name: str) -> list[str]:
    return [rest for step, rest in STEPS if step == name]


def environment() -> dict[str, str]:
    return dict(pair.split("=", 1) for line in steps("ENV") for pair in shlex.split(line))


def copied() -> list[str]:
    """Return what is copied from this folder."""
    lines = [line.split() for line in steps("COPY") if not line.startswith("--from")]
    return [source for line in lines for source in line[:-1]]


def test_what_is_copied_is_there_and_not_ignored() -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line.startswith("!")]
    for source in copied():
        assert (ROOT / source).exists(), source
        assert any(fnmatch.fnmatch(source, pattern) for pattern in allowed), source


def test_it_is_slim_and_runs_as_nobody_in_particular() -> None:
    bases = [line.split()[0] for line in steps("FROM")]
    assert all(re.fullmatch(r"python:3\.\d+-slim", base) for base in bases)
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", steps("USER")[-1])
    assert [step for step, _ in STEPS].index("USER") < [step for step, _ in STEPS].index("ENTRYPOINT")
    assert not steps("ADD")
    assert json.loads(steps("ENTRYPOINT")[0]) == ["keff", "serve"]
    assert steps("STOPSIGNAL") == ["SIGTERM"]


@pytest.mark.skipif(shutil.which("hadolint", path=PATH) is None, reason="no hadolint")
def test_a_linter_has_nothing_to_say() -> None:
    linter = str(shutil.which("hadolint", path=PATH))
    done = subprocess.run([linter, str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_its_health_check_is_a_program() -> None:
    (check,) = steps("HEALTHCHECK")
    python, flag, program = json.loads(check.partition("CMD")[2])
    assert (python, flag) == ("python", "-c")
    compile(program, "health", "exec")
    assert int(environment()["KEFF_PORT"]) == int(steps("EXPOSE")[0])


def test_its_variables_and_extras_exist() -> None:
    options = set(re.findall(r"--([a-z-]+)", keff("serve", "--help").stdout))
    for name in environment():
        if name.startswith("KEFF_"):
            assert name.removeprefix("KEFF_").lower().replace("_", "-") in options, name
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (named,) = re.findall(r"\.\[([a-z,]+)\]", " ".join(steps("RUN")))
    assert set(named.split(",")) <= set(extras)


def compose() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((ROOT / "examples" / "deploy" / "compose.yaml").read_text())


def test_the_compose_file_starts_it_with_flags_that_exist() -> None:
    service = compose()["services"]["keff"]
    options = set(re.findall(r"--[a-z-]+", keff("serve", "--help").stdout))
    assert {word for word in service["command"] if word.startswith("--")} <= options
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert (ROOT / "examples" / "deploy" / service["build"]).resolve() == ROOT
    named = {
        volume.partition(":")[0] for each in compose()["services"].values() for volume in each["volumes"]
    }
    assert named == set(compose()["volumes"])


def test_what_stands_beside_litellm_is_there() -> None:
    yaml = pytest.importorskip("yaml")
    folder = ROOT / "examples" / "deploy"
    beside = yaml.safe_load((folder / "compose-litellm.yaml").read_text())
    services = beside["services"] | compose()["services"]
    for name, service in beside["services"].items():
        assert set(service.get("depends_on", {})) <= set(services), name
        assert {volume.partition(":")[0] for volume in service.get("volumes", ())} <= set(beside["volumes"])
        assert {each["source"] for each in service.get("configs", ())} <= set(beside["configs"]), name
    for config in beside["configs"].values():
        assert "content" in config or (folder / config["file"]).exists()
    litellm = yaml.safe_load((folder / "litellm.yaml").read_text())
    assert (litellm["litellm_settings"], litellm["router_settings"]) == (
        {"num_retries": 0, "cache": False},
        {"num_retries": 0},
    )


def test_the_dashboard_shows_series_that_the_gateway_has() -> None:
    panels = json.loads((ROOT / "examples" / "deploy" / "grafana-dashboard.json").read_text())["panels"]
    known = {
        *COUNTERS,
        *GAUGES,
        *(f"{name}_{end}" for name in HISTOGRAMS for end in ("sum", "count", "bucket")),
    }
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    named = {name for query in queries for name in re.findall(r"keff_\w+", query)}
    assert len(named) > 12 and named <= known


@pytest.mark.skipif(shutil.which("docker") is None, reason="no docker")
def test_docker_reads_the_compose_file() -> None:
    command = ["docker", "compose", "-f", str(ROOT / "examples" / "deploy" / "compose.yaml"), "config", "-q"]
    probe = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("docker without compose")
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "KEFF_TOKEN": "t"}
    )
    assert done.returncode == 0, done.stderr
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "KEFF_TOKEN" in refused.stderr


@pytest.mark.integration
def test_its_steps_run_in_a_clean_folder(tmp_path: Path) -> None:
    build, home = tmp_path / "build", tmp_path / "opt"
    build.mkdir()
    for source in copied():
        here = ROOT / source
        if here.is_dir():
            shutil.copytree(here, build / source, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(here, build / source)
    (step,) = [line for line in steps("RUN") if "pip install" in line]
    step = step.replace("/opt/keff", str(home)).replace("python -m venv", f"{sys.executable} -m venv")
    clean = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "PATH"))}
    # Bytecode of all packages takes longer than their download; most of it is never run.
    clean["PIP_NO_COMPILE"] = "1"
    subprocess.run(["sh", "-ec", step], cwd=build, check=True, env=clean, capture_output=True)
    given = {name: value for name, value in environment().items() if name != "PATH"}
    command = [str(home / "bin" / "keff"), "serve", "--check", "--upstream", "http://vllm:8000/v1"]
    checked = subprocess.run(
        [*command, "--set", "otlp=http://collector:4318"],
        cwd="/",
        env={**given, "KEFF_TOKEN": "secret", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout)["policy"] == "lead_k:3"
    unsafe = subprocess.run(command, cwd="/", env=given, capture_output=True, text=True, check=False)
    assert unsafe.returncode == 2
    assert "KEFF_TOKEN" in unsafe.stderr
    starts_checks_and_stops(home / "bin", {**given, "KEFF_TOKEN": "secret", "HOME": "/nonexistent"})


def starts_checks_and_stops(programs: Path, variables: dict[str, str]) -> None:
    """Start what the entry point starts, ask its health as Docker would, and stop it as Docker would."""
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = str(reserved.getsockname()[1])
    variables = {**variables, "KEFF_PORT": port, "KEFF_HOST": "127.0.0.1"}
    entry, *rest = json.loads(steps("ENTRYPOINT")[0])
    command = [str(programs / entry), *rest, "--upstream", "http://127.0.0.1:9/v1"]
    python, *check = json.loads(steps("HEALTHCHECK")[0].partition("CMD")[2])
    with subprocess.Popen(command, cwd="/", env=variables, stderr=subprocess.DEVNULL) as server:
        try:
            end = time.monotonic() + 60
            health = [str(programs / python), *check]
            while subprocess.run(health, env=variables, capture_output=True, check=False).returncode:
                assert server.poll() is None and time.monotonic() < end, "it is not healthy"
            server.send_signal(getattr(signal, steps("STOPSIGNAL")[0]))
            assert server.wait(60) == 0
        finally:
            server.kill()


def engine() -> str | None:
    """Return the container engine whose daemon answers."""
    for name in ("docker", "podman"):
        if (
            shutil.which(name)
            and not subprocess.run([name, "info"], capture_output=True, check=False).returncode
        ):
            return name
    return None


@pytest.mark.integration
def test_it_is_built_and_run_where_an_engine_is() -> None:
    name = engine()
    if name is None:
        pytest.skip("neither docker nor podman has a daemon that answers")
    subprocess.run([name, "build", "-q", "-t", "keff-test", str(ROOT)], check=True, capture_output=True)
    limits = ["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    run = [name, "run", "--rm", *limits, "-e", "KEFF_TOKEN=secret", "keff-test"]
    done = subprocess.run(
        [*run, "--upstream", "http://vllm:8000/v1", "--check"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["policy"] == "lead_k:3"
