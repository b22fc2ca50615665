# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the actions on BMCs share: options of task and host, and the documents of a bulk read."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.nearmetal.rack.plugins.module_utils import bios
from ansible_collections.nearmetal.rack.plugins.module_utils.capabilities.bios import asked
from ansible_collections.nearmetal.rack.plugins.plugin_utils.intent import (
    SPECS,
    plain,
    read_intent,
    without_secrets,
)
from ansible_collections.nearmetal.rack.plugins.plugin_utils.redfish import (
    NAMES,
    Bmc,
    BmcError,
    Registries,
    access,
    jobs,
    read_bmc,
    reading,
)
from ansible_collections.nearmetal.rack.plugins.plugin_utils.redfish.power import Power

ROLE = "bios"
PREFIX = "bios_"
REGISTRY = "registry-"

Options = dict[str, Any]
Document = dict[str, Any]
Template = Callable[[Any], Any]


def has_bmc(variables: Mapping[str, Any]) -> bool:
    """Whether a host's variables name its BMC."""
    return bool(variables.get(PREFIX + "baseuri"))


def options_of(
    args: Mapping[str, Any], variables: Mapping[str, Any], template: Template, wanted: tuple[str, ...],
    more: Mapping[str, Any] | None = None,
) -> Options:  # fmt: skip
    """Checked options of a task: of the role bios those in `wanted`, and `more` of the module's own.

    Connection options (and job_timeout) that the task does not give are the host's variables bios_*. Raises AnsibleActionFail.
    """
    spec = {name: SPECS[ROLE][PREFIX + name] for name in (*NAMES, *wanted)}
    spec.update(more or {})
    own = (n for n in (*NAMES, "job_timeout") if n in spec and PREFIX + n in variables)
    given = {n: plain(template(variables[PREFIX + n])) for n in own}
    given.update({name: plain(value) for name, value in args.items()})
    checked = ArgumentSpecValidator(spec).validate(given)
    if checked.error_messages:
        secret = given.get("password")
        raise AnsibleActionFail("; ".join(without_secrets(text, [secret]) for text in checked.error_messages))
    found: Options = checked.validated_parameters
    return found


def wanted(options: Mapping[str, Any] | None, root: str = "/") -> bool:
    """Whether a host's BMC is to be asked: something of the BIOS is in its intent, and it is no tree of files."""
    return options is not None and root == "/" and bool(options.get("baseuri")) and asked(options)


def host_options(variables: Mapping[str, Any], template: Template) -> Options | None:
    """The host's options of the role bios; None where the BMC is not to be asked, or they are wrong (the plan says how)."""
    if not has_bmc(variables):
        return None
    intent, found = read_intent(variables, template, (ROLE,))
    options = intent[ROLE]
    right = not found and wanted(options, str(variables.get("nearmetal_root") or "/"))
    return options if right and not bios.intent_problems(options) else None


@contextlib.contextmanager
def session(options: Options) -> Iterator[Bmc]:
    """A session with the BMC of checked options; errors of it fail the task with their one line."""
    try:
        with Bmc(access(options)) as bmc:
            yield bmc
    except BmcError as err:
        raise AnsibleActionFail(str(err)) from None


def read_here(options: Mapping[str, Any]) -> Document:
    """The document of one BMC, with its registry where the intent needs it."""
    return read_bmc(options, bios.needs_registry)


class Reading:
    """The BMC's document, read while something else is done. Use as a context manager; then ask `result()`."""

    def __init__(self, options: Mapping[str, Any] | None, folder: str = "", host: str = "") -> None:
        self._document = load(folder, host) if options is not None else None
        self._thread: threading.Thread | None = None
        if options is not None and self._document is None:
            self._thread = threading.Thread(target=self._read, args=(options,), daemon=True)

    def _read(self, options: Mapping[str, Any]) -> None:
        self._document = read_here(options)

    def __enter__(self) -> Reading:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._thread is not None:
            self._thread.join()

    def result(self) -> Document | None:
        """The document; None where the BMC is not in the intent."""
        if self._thread is not None:
            self._thread.join()
        return self._document


def save(folder: str, documents: Mapping[str, Document]) -> None:
    """Leave the documents of a bulk read for the plans of their hosts; equal registries once.

    A file for each host instead of a variable: ansible would copy all of them for every host and task.
    """
    names: dict[str, str] = {}
    for host, document in documents.items():
        registry, kept = document["registry"], document
        if registry is not None:
            key = Registries.key(document)
            if key not in names:
                names[key] = f"{REGISTRY}{len(names)}.json"
                Path(folder, names[key]).write_text(json.dumps(registry), encoding="utf-8")
            kept = {**document, "registry": names[key]}
        _path(folder, host).write_text(json.dumps(kept), encoding="utf-8")


def load(folder: str, host: str) -> Document | None:
    """What the bulk read left of a host's BMC; None where it left nothing."""
    if not folder or not host:
        return None
    try:
        document: Document = json.loads(_path(folder, host).read_text(encoding="utf-8"))
        if document["registry"] is not None:
            document["registry"] = json.loads(Path(folder, document["registry"]).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document


def _path(folder: str, host: str) -> Path:
    return Path(folder, "host-" + host.replace("/", "%2F") + ".json")


def kept(document: Document | None) -> Document | None:
    """The part that stays in a run's folder: not the registry, which is big and the same for all."""
    return {**document, "registry": None} if document is not None else None


class HostBmc:
    """The BMC of a host that is rebooted, if it has one (bool): words of what it says, never an exception."""

    def __init__(self, variables: Mapping[str, Any], template: Template) -> None:
        self._options: Options | None = None
        if has_bmc(variables):
            with contextlib.suppress(AnsibleActionFail):
                self._options = options_of({}, variables, template, ("job_timeout",))

    def __bool__(self) -> bool:
        return self._options is not None

    def power_cycle(self) -> str:
        """Power it off and on; why not, or ""."""

        def cycle(bmc: Bmc) -> str:
            Power(bmc).set("cycle")
            return ""

        return self._asked(cycle)

    def power_words(self) -> str:
        """What its power is, for a host that is lost."""
        return self._asked(lambda bmc: f"Its BMC says that the power is {Power(bmc).state or 'unknown'}", "Its BMC does not help: ")

    def wait_for_jobs(self) -> str:
        """Wait until what the boot had to carry out has ended; a warning where it has not."""

        def wait(bmc: Bmc) -> str:
            document = reading.read(bmc)
            if not document["bios"]["jobs"]:
                return ""
            left = jobs.wait_after_boot(bmc, document["bios"]["jobs_path"], float((self._options or {})["job_timeout"]))
            return "; ".join(f"the BMC's job {j['id']} is still {j['state']} ({j['percent']} %)" for j in left)

        return self._asked(wait)

    def _asked(self, ask: Callable[[Bmc], str], prefix: str = "") -> str:
        if self._options is None:
            return ""
        try:
            with Bmc(access(self._options)) as bmc:
                return ask(bmc)
        except BmcError as err:
            return prefix + str(err)
