"""What DSP0266 asks of every service, whatever its machine: OData documents, accounts, roles, sessions, methods of a path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import resources
from .machine import Machine

Document = dict[str, Any]
SESSIONS = f"{resources.ROOT}/SessionService/Sessions"
ACCOUNTS = f"{resources.ROOT}/AccountService"
ODATA = f"{resources.ROOT}/odata"
METADATA = f"{resources.ROOT}/$metadata"
SCHEMAS = "http://redfish.dmtf.org/schemas/v1"
READ = ("GET", "HEAD")
ROLES = {
    "Administrator": ("Login", "ConfigureManager", "ConfigureUsers", "ConfigureComponents", "ConfigureSelf"),
    "Operator": ("Login", "ConfigureComponents", "ConfigureSelf"),
    "ReadOnly": ("Login", "ConfigureSelf"),
}


def documents(username: str, sessions: Iterable[str]) -> dict[str, Document]:
    """Resources of the service itself, by path."""
    open_now = [session(name, username) for name in sessions]
    roles = [_role(f"{ACCOUNTS}/Roles/{name}", name, rights) for name, rights in ROLES.items()]
    accounts = [_account(f"{ACCOUNTS}/Accounts/1", username)]
    service = {
        "@odata.id": ACCOUNTS, "@odata.type": "#AccountService.v1_8_0.AccountService", "Id": "AccountService",
        "Name": "Account service", "ServiceEnabled": True, "Accounts": {"@odata.id": f"{ACCOUNTS}/Accounts"},
        "Roles": {"@odata.id": f"{ACCOUNTS}/Roles"},
    }  # fmt: skip
    lists = [
        resources.collection(SESSIONS, "Session", "Sessions", [d["@odata.id"] for d in open_now]),
        resources.collection(f"{ACCOUNTS}/Roles", "Role", "Roles", [d["@odata.id"] for d in roles]),
        resources.collection(
            f"{ACCOUNTS}/Accounts", "ManagerAccount", "Accounts", [d["@odata.id"] for d in accounts]
        ),
    ]
    return {d["@odata.id"]: d for d in (service, *lists, *open_now, *roles, *accounts)}


def session(name: str, username: str) -> Document:
    """An open session."""
    return {
        "@odata.id": f"{SESSIONS}/{name}", "@odata.type": "#Session.v1_3_0.Session", "Id": name, "Name": "Session",
        "UserName": username,
    }  # fmt: skip


def _role(path: str, name: str, rights: tuple[str, ...]) -> Document:
    return {
        "@odata.id": path, "@odata.type": "#Role.v1_3_0.Role", "Id": name, "Name": name, "RoleId": name, "IsPredefined": True,
        "AssignedPrivileges": list(rights),
    }  # fmt: skip


def _account(path: str, username: str) -> Document:
    return {
        "@odata.id": path, "@odata.type": "#ManagerAccount.v1_7_0.ManagerAccount", "@odata.etag": '"1"', "Id": "1", "Name": "Account",
        "UserName": username, "Password": None, "RoleId": "Administrator", "Enabled": True, "Locked": False,
        "AccountTypes": ["Redfish"], "Links": {"Role": {"@odata.id": f"{ACCOUNTS}/Roles/Administrator"}},
    }  # fmt: skip


def odata() -> Document:
    """The OData service document."""
    parts = [(name, f"{resources.ROOT}/{name}") for name in resources.PARTS]
    value = [
        {"name": name, "kind": "Singleton", "url": url}
        for name, url in (("Service", f"{resources.ROOT}/"), *parts)
    ]
    return {"@odata.context": METADATA, "value": value}


def metadata(types: Iterable[str]) -> str:
    """The OData metadata document: where the schemas of these types are."""
    spaces: dict[str, set[str]] = {}
    for kind in types:
        space = kind.lstrip("#").rpartition(".")[0]
        spaces.setdefault(space.partition(".")[0], set()).add(space)
    lines = []
    for name, versions in sorted(spaces.items()):
        file = f"{name}_v1.xml"
        lines.append(f'  <edmx:Reference Uri="{SCHEMAS}/{file}">')
        lines += [f'    <edmx:Include Namespace="{space}"/>' for space in sorted({name, *versions})]
        lines.append("  </edmx:Reference>")
    return "\n".join((
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx" Version="4.0">', *lines, "  <edmx:DataServices>",
        '    <Schema xmlns="http://docs.oasis-open.org/odata/ns/edm" Namespace="Service">',
        '      <EntityContainer Name="Service" Extends="ServiceRoot.v1_9_0.ServiceContainer"/>', "    </Schema>",
        "  </edmx:DataServices>", "</edmx:Edmx>", "",
    ))  # fmt: skip


def described_by(document: Document) -> str:
    """The Link header of a resource: the schema of its type."""
    space = str(document.get("@odata.type") or "").lstrip("#").rpartition(".")[0]
    return f"<{SCHEMAS}/{space}.json>; rel=describedby" if space else ""


def methods(machine: Machine, path: str, sessions: Iterable[str]) -> tuple[str, ...]:
    """What can be done at a path; nothing where there is none."""
    plain = machine.traits.plain
    more = {
        plain(known): method
        for method, paths in (
            ("POST", (SESSIONS, *resources.job_paths(machine))),
            ("PATCH", (resources.system_path(machine), machine.settings_path)),
            ("DELETE", (
                *(f"{SESSIONS}/{name}" for name in sessions),
                *(f"{jobs}/{job.id}" for jobs in resources.job_paths(machine) for job in machine.jobs),
            )),
        ) for known in paths
    }  # fmt: skip
    if plain(path) in more:
        return (*READ, more[plain(path)])
    if plain(path) in {plain(p) for p in (f"{SESSIONS}/Members", *resources.actions(machine))}:
        return ("POST",)
    known = path in (ODATA, METADATA) or resources.resource(machine, path) is not None
    return READ if known or plain(path) in {plain(p) for p in documents("", ())} else ()
