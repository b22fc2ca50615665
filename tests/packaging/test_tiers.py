"""The test runner: what it counts, what it forbids, what it says at the end."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

TOP = Path(__file__).resolve().parents[2]


@pytest.fixture
def tiers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """scripts/tiers.py with an output folder of its own."""
    spec = importlib.util.spec_from_file_location("tiers_under_test", TOP / "scripts" / "tiers.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "OUT", tmp_path)
    monkeypatch.setattr(module, "IN_CI", False)
    return module


def write_tests(folder: Path, text: str) -> str:
    folder.mkdir()
    (folder / "test_some.py").write_text(f"import pytest\n{text}", encoding="utf-8")
    return str(folder)


def only(tiers: ModuleType, monkeypatch: pytest.MonkeyPatch, **parts: object) -> None:
    monkeypatch.setattr(tiers, "TIERS", {k: tiers.Tier(k, run, 1) for k, run in parts.items()})


def test_counts_and_closing_lines(
    tiers: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = "def test_a(): pass\ndef test_b(): assert 0\ndef test_c(): pytest.skip('no x')\n"
    folder = write_tests(tmp_path / "a", text)
    ok = tiers.checks(lambda: [("yes", ["true"]), ("no", ["false"])])
    only(tiers, monkeypatch, one=tiers.pytest(folder), two=ok)
    assert tiers.main([]) == 1
    lines = capfd.readouterr().out.splitlines()
    assert lines[-2] == "2 passed, 2 failed"
    assert " 2 failed, 2 passed, 1 skipped in " in lines[-1]
    assert "FAILED no" in lines
    assert [line for line in lines if line.startswith("SKIPPED") and line.endswith("test_c: no x")]


@pytest.mark.parametrize(
    ("reason", "in_ci", "status"),
    [("no QEMU", True, 1), ("no QEMU", False, 0), ("captured samples are not at /x (set NEARMETAL_SAMPLES)", True, 0)],
)
def test_a_skip_fails_in_ci_unless_samples_are_absent(
    tiers: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reason: str, in_ci: bool, status: int
) -> None:
    folder = write_tests(tmp_path / "a", f"def test_a(): pass\ndef test_c(): pytest.skip({reason!r})\n")
    only(tiers, monkeypatch, one=tiers.pytest(folder))
    monkeypatch.setattr(tiers, "IN_CI", in_ci)
    assert tiers.main([]) == status


def test_a_part_without_tests_fails(tiers: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    only(tiers, monkeypatch, one=tiers.pytest(write_tests(tmp_path / "a", "")), two=tiers.checks(lambda: []))
    assert tiers.main(["one"]) == 1


def test_a_module_that_cannot_be_imported_fails(
    tiers: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    only(tiers, monkeypatch, one=tiers.pytest(write_tests(tmp_path / "a", "import no_such_module\n")))
    assert tiers.main([]) == 1


PARTS = """
TIERS = {
    "one": Tier("one", checks(lambda: [("yes", ["true"]), ("no", ["false"])]), 1),
    "two": Tier("two", checks(lambda: [("kill", ["bash", "-c", "%s"])]), 1),
    "rack": Tier("rack", checks(lambda: [("racked", ["sleep", "1"])]), 1),
}
"""


@pytest.mark.parametrize("cut_off", [False, True])
def test_parts_beside_those_of_the_rack_count(tmp_path: Path, cut_off: bool) -> None:
    text = (TOP / "scripts" / "tiers.py").read_text(encoding="utf-8")
    parts = PARTS % ("kill -9 $PPID" if cut_off else "true")
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts" / "tiers.py"
    script.write_text(text.replace('if __name__ == "__main__":', parts + '\n\nif __name__ == "__main__":'), encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED no" in done.stdout and "--- racked: ok" in done.stdout
    assert ("FAILED two: it did not end" in done.stdout) == cut_off
    assert ("2 passed, 2 failed" if cut_off else "3 passed, 1 failed") in done.stdout


def test_unknown_part_is_bad_usage(tiers: ModuleType) -> None:
    assert tiers.main(["nope"]) == 64


def test_a_command_out_of_time_is_ended_with_its_children(
    tiers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "pid"
    status = tiers.execute(["bash", "-c", f"sleep 300 & echo $! > {mark}; wait"], time.monotonic() + 1)
    assert status == 124
    child = int(mark.read_text(encoding="utf-8"))
    end = time.monotonic() + 10
    while time.monotonic() < end and alive(child):
        time.sleep(0.05)
    assert not alive(child)


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
