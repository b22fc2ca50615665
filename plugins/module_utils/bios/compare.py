# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what is asked for and what a BMC says to what is to be sent to it.

Three states of a value: in force; pending (submitted, in force after the next reset); or neither, then it is requested.
Settings resources of Lenovo, DGX and Supermicro repeat every attribute: only what differs from the current value is
pending. Dell shows new values as current before its job has run (libredfish#25): while a job is unfinished, nothing that
it may be about is in force; and what is pending there without a job is never applied.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ..model import Problem
from . import find, registry
from .intent import ATTRIBUTES, PRESET, SETTINGS, wishes
from .maps import TABLES, WHY_NOT, Profile, Table
from .platforms import platform
from .values import alike, text
from .words import WORDS

BASEURI = "bios_baseuri"
ON_RESET = "OnReset"
NOTHING = object()
"""No value is pending."""


@dataclass
class Comparison:
    """What is to be done about the BIOS of one machine. Submit `body` where it is not empty.

    wanted: attribute to value, as it is to be spelled; requested: those to be submitted now; pending: those submitted
    before, waiting for a reset. restored: values in force that the body asks for because others are pending: against what
    was asked for, or foreign ones (foreign_pending: clear, where the BMC has no action for it). words: attribute to the word or raw
    attribute that asked for it. reasons: why a word or attribute is unsupported. shared:
    attribute to all words that it stands for (Dell: VT-x and VT-d are one).
    before: what a word is now, where it is one of its values.
    """

    wanted: Dict[str, Any] = field(default_factory=dict)
    requested: Dict[str, Any] = field(default_factory=dict)
    pending: Dict[str, Any] = field(default_factory=dict)
    foreign_pending: Dict[str, Dict[str, Any]] = field(default_factory=dict)
    restored: Dict[str, Any] = field(default_factory=dict)
    current: Dict[str, Any] = field(default_factory=dict)
    unsupported: List[str] = field(default_factory=list)
    reasons: Dict[str, str] = field(default_factory=dict)
    words: Dict[str, str] = field(default_factory=dict)
    shared: Dict[str, List[str]] = field(default_factory=dict)
    before: Dict[str, Any] = field(default_factory=dict)
    clear: bool = False
    problems: List[Problem] = field(default_factory=list)
    warnings: List[str] = field(default_factory=list)
    body: Dict[str, Any] = field(default_factory=dict)
    doubtful: bool = False  # a spelling was guessed: the registry would tell

    @property
    def idle(self) -> List[str]:
        """Wanted attributes that are not in force."""
        return [*self.requested, *self.pending]

    @property
    def reset_required(self) -> bool:
        """Whether values are not in force that a reset brings into force."""
        return bool(self.idle)


class Wish(NamedTuple):
    """One attribute to be set. fits: whether a value that was read is as wanted."""

    value: Any
    key: str  # the word, or the raw attribute's name
    raw: bool
    fits: Callable[[Any], bool]


@dataclass
class _Work:
    """What is known while one machine is compared."""

    options: Mapping[str, Any]
    bmc: Mapping[str, Any]
    result: Comparison
    platform: str
    table: Optional[Table]
    note: Optional[Mapping[str, Any]]  # the registry
    bios: Mapping[str, Any]
    current: Mapping[str, Any]
    wishes: Dict[str, Wish] = field(default_factory=dict)

    def give_up(self, name: str, why: str) -> None:
        """A word or attribute that this machine does not offer."""
        if name not in self.result.unsupported:
            self.result.unsupported.append(name)
        self.result.reasons[name] = why

    def refuse(self, key: str, value: Any, message: str, fix: str, kind: str = "intent") -> None:
        """A problem of a word or attribute."""
        variable = SETTINGS if key in WORDS else ATTRIBUTES
        if key in WORDS and key not in (self.options.get("settings") or {}):
            variable = PRESET
        self.result.problems.append(Problem(variable, value, message, fix, kind))


def compare(options: Mapping[str, Any], bmc: Optional[Mapping[str, Any]]) -> Comparison:
    """The whole comparison. Never raises for anything that a BMC may say."""
    result = Comparison()
    if not bmc:
        return result
    unread = _unread(bmc)
    if unread is not None:
        result.problems.append(unread)
        return result
    name, shown = platform(bmc), bmc["bios"]
    work = _Work(options, bmc, result, name, TABLES.get(name), bmc.get("registry"), shown, shown["current"])
    _raw(work)
    for word, value in wishes(options).items():
        _word(work, word, value)
    _profile(work)
    _sort(work)
    _dependencies(work)
    _foreign(work)
    _finish(work)
    return result


def needs_registry(options: Mapping[str, Any], bmc: Optional[Mapping[str, Any]]) -> bool:
    """Whether the registry is worth its size: something would be submitted, or a spelling is a guess."""
    if not bmc or bmc.get("error") or bmc.get("registry") is not None or not (bmc.get("bios") or {}).get("registry"):
        return False
    result = compare(options, bmc)
    table = TABLES.get(platform(bmc))
    unnamed = bool(result.unsupported and table and table.suffixes)  # it may be found by its display name
    return bool(result.body or result.doubtful or result.problems or unnamed)


def topology_changes(options: Optional[Mapping[str, Any]], bmc: Optional[Mapping[str, Any]]) -> Dict[str, str]:
    """What the kernel will count otherwise after the next reset ("cpus", "nodes"), and why."""
    if not options or not bmc or bmc.get("error"):
        return {}
    result = compare(options, bmc)
    asked = wishes(options)
    moved: Dict[str, List[str]] = {}
    for word in WORDS:
        if WORDS[word].moves and any(word in result.shared[name] for name in result.idle):
            moved.setdefault(WORDS[word].moves, []).append("%s becomes %s" % (word, text(asked[word])))
    return {kind: ", ".join(why) for kind, why in moved.items()}


def turning_on(options: Optional[Mapping[str, Any]], bmc: Optional[Mapping[str, Any]], word: str) -> bool:
    """Whether a switch is off in the BIOS and comes on with the next reset, because it was asked for."""
    if not options or not bmc or bmc.get("error") or wishes(options).get(word) is not True:
        return False
    result = compare(options, bmc)
    return not result.problems and any(word in result.shared[name] for name in result.idle)


def _unread(bmc: Mapping[str, Any]) -> Optional[Problem]:
    uri = bmc.get("uri") or ""
    if bmc.get("error"):
        return Problem(BASEURI, uri, "the BMC could not be read: %s" % bmc["error"], "see the message; then plan again", "host")
    if not (bmc.get("bios") or {}).get("current"):
        text_ = "the BMC %s shows no BIOS attributes" % uri
        fix = "some show them only after the system was started once (POST), or with a licence; update the BMC's firmware"
        return Problem(BASEURI, uri, text_, fix, "host")
    return None


# --- what is asked for


def _raw(work: _Work) -> None:
    """Attributes given by name: they win over words."""
    for given, value in (work.options.get("attributes") or {}).items():
        names = find.raw_names(given, work.current, work.note, bool(work.table and work.table.suffixes))
        if len(names) > 1:
            fix = "give one of %s" % ", ".join(sorted(names))
            work.refuse(given, value, "the attribute %s is there more than once" % given, fix)
        elif not names:
            near = find.closest(given, work.current)
            work.give_up(given, "this BIOS has no such attribute%s" % (", but %s" % " and ".join(near) if near else ""))
        else:
            _raw_value(work, given, names[0], value)


def _raw_value(work: _Work, given: str, name: str, value: Any) -> None:
    told = registry.entry(work.note, name)
    if "password" in name.casefold() or (told or {}).get("type") == "Password":
        work.refuse(given, name, "%s is a password: it is not set here" % name, "set it with the vendor's own tool")
        return
    spelled, fault = find.coerce(value, work.current.get(name), told)
    if fault:
        work.refuse(given, value, "%s cannot be %s" % (name, value), fault)
        return
    work.wishes[name] = Wish(spelled, name, True, lambda have: find.same_raw(spelled, have, told))


def _word(work: _Work, word: str, value: Any) -> None:
    if word == "secure_boot":
        _secure_boot(work, value)
        return
    settings = work.table.words.get(word, ()) if work.table else ()
    if not settings:
        why = WHY_NOT.get(word) or "this BIOS has no setting for it"
        work.give_up(word, why if work.table else "nobody knows this vendor's names; give them in bios_attributes")
        return
    found = ""
    left: List[str] = []
    suffixes = bool(work.table and work.table.suffixes)
    for setting in settings:
        for name in find.names(setting, work.current, work.note, suffixes):
            if name in work.wishes and work.wishes[name].raw:
                found = name
                continue
            told = registry.entry(work.note, name)
            if told and told.get("read_only") and not find.fits(setting, value, told, work.current.get(name)):
                left.append("%s is read-only" % name)
                continue
            choice = find.spell(setting, value, told, work.current.get(name))
            if choice is None:
                left.append(find.cannot(name, value, told))
                continue
            found = name
            if not choice.sure or setting.display_decides and work.note is None:
                work.result.doubtful = True
            _want(work, name, Wish(choice.value, word, False, _fitting(setting, value, told)))
    if not found:
        work.give_up(word, "; ".join(left) or "this BIOS has none of %s" % find.known_as(settings))
    elif left:
        work.result.warnings.append("%s is done without a part of it: %s" % (word, "; ".join(left)))
    for one in WORDS[word].values:
        if found and find.all_fit(settings, one, work.current, work.note, suffixes):
            work.result.before.setdefault(word, one)


def _fitting(setting: Any, value: Any, told: Any) -> Callable[[Any], bool]:
    return lambda have: find.fits(setting, value, told, have)


def _want(work: _Work, name: str, wish: Wish) -> None:
    work.result.shared.setdefault(name, []).append(wish.key)
    other = work.wishes.get(name)
    if other is not None and not other.fits(wish.value):
        message = "%s and %s are the same attribute here (%s), and cannot be %s and %s" % (
            other.key, wish.key, name, text(other.value), text(wish.value))  # fmt: skip
        work.refuse(wish.key, wish.value, message, "ask for one of them only on this machine")
        return
    work.wishes.setdefault(name, wish)


def _secure_boot(work: _Work, value: bool) -> None:
    """Compared only: switching it needs keys, and can leave a system that does not start."""
    have = work.bmc.get("secure_boot")
    if have is None and work.table:
        for setting in work.table.words.get("secure_boot", ()):
            for name in find.names(setting, work.current, work.note, work.table.suffixes):
                have = find.fits(setting, True, None, work.current.get(name))
    if have is None:
        work.give_up("secure_boot", WHY_NOT["secure_boot"])
    elif have is not value:
        message = "Secure Boot is %s, and is to be %s" % (text(have), text(value))
        work.refuse("secure_boot", value, message, "switch it in the BIOS: it is compared only, never changed", "host")


def _profile(work: _Work) -> None:
    """Attributes that a profile governs need it to be Custom; on the way there nothing else changes."""
    rule: Optional[Profile] = work.table.profile if work.table else None
    if rule is None or rule.name not in work.current:
        return
    mine, others = work.wishes.get(rule.name), [n for n in work.wishes if n in rule.governs]
    if mine is not None and not mine.raw and others:  # whatever is in force: else the two would take turns
        why = "%s would be %s, and cannot be beside %s" % (
            rule.name, mine.value, " and ".join(dict.fromkeys(work.wishes[n].key for n in others)))  # fmt: skip
        work.give_up(mine.key, why)
        del work.wishes[rule.name]
    governed = [
        name for name, wish in work.wishes.items()
        if name in rule.governs and (not wish.fits(work.current.get(name)) or _in_job(work, name))
    ]  # fmt: skip
    _make_custom(work, rule, governed)


def _in_job(work: _Work, name: str) -> bool:
    """Whether an unfinished job is about it: then what is shown as current is not."""
    return bool(work.bios.get("jobs")) and (work.bios.get("settings") or {}).get(name) is not None


def _make_custom(work: _Work, rule: Profile, governed: List[str]) -> None:
    mine = work.wishes.get(rule.name)
    if not governed or (mine is not None and mine.fits(rule.custom)):
        return
    if mine is not None:
        message = "%s is to be %s, but %s can be set only while it is %s" % (
            rule.name, mine.value, " and ".join(governed), rule.custom)  # fmt: skip
        fix = "give %s: %s in bios_attributes, or leave out %s: the profile decides" % (
            rule.name, rule.custom, " and ".join(dict.fromkeys(work.wishes[n].key for n in governed)))  # fmt: skip
        work.refuse(mine.key, mine.value, message, fix)
        return
    if alike(work.current.get(rule.name), rule.custom) and not _in_job(work, rule.name):
        return
    told = registry.entry(work.note, rule.name)
    spelled, fault = find.coerce(rule.custom, work.current.get(rule.name), told)
    if fault:
        return
    work.wishes[rule.name] = Wish(spelled, rule.name, False, lambda have: alike(have, spelled))
    work.result.warnings.append("%s becomes %s: only then can %s be set" % (rule.name, spelled, ", ".join(governed)))


# --- what is there


def _standing(work: _Work, name: str) -> Tuple[Any, Any]:
    """(the value in force, the pending one or NOTHING). While a job is unfinished, nobody knows what is in force."""
    settings = work.bios.get("settings") or {}
    current, pending = work.current.get(name), settings.get(name)
    if work.bios.get("jobs"):
        if pending is not None:
            return NOTHING, pending
        if not settings:
            return NOTHING, current
    if pending is not None and work.platform == "dell" and len(settings) < len(work.current):
        return NOTHING, pending  # it lists what waits, without a job too, and may show that as current
    if pending is not None and not alike(pending, current):
        return current, pending
    return current, NOTHING


def _sort(work: _Work) -> None:
    """Each wish is in force, pending, or to be requested."""
    result = work.result
    by_job = work.platform == "dell"  # then taking a value back is a job, too, and needs the reset
    lost = by_job and not work.bios.get("jobs")
    for name, wish in work.wishes.items():
        result.wanted[name], result.words[name] = wish.value, wish.key
        result.shared.setdefault(name, [wish.key])
        result.current[name] = work.current.get(name)
        in_force, pending = _standing(work, name)
        if pending is NOTHING:
            if not wish.fits(in_force):
                result.requested[name] = wish.value
        elif not by_job and in_force is not NOTHING and wish.fits(in_force) and not wish.fits(pending):
            result.restored[name] = work.current.get(name)
            result.warnings.append("%s is pending as %s: this is taken back" % (name, pending))
        elif not wish.fits(pending):
            result.requested[name] = wish.value
            result.warnings.append("%s is pending as %s: this is replaced by %s" % (name, pending, wish.value))
        elif lost:
            result.requested[name] = wish.value
            result.warnings.append("%s is pending without a job that would apply it: it is submitted again" % name)
        else:
            result.pending[name] = wish.value


def _dependencies(work: _Work) -> None:
    """What the registry says of attributes that are to be set: refused ones are explained, never sent."""
    rule: Optional[Profile] = work.table.profile if work.table else None
    then = {**work.current, **work.result.wanted}
    hindered = {n: b for n, b in ((n, registry.blocked(work.note, n, then)) for n in work.result.requested) if b}
    if rule is not None and rule.name in work.current:
        governed = [n for n, b in hindered.items() if rule.name in b.by and work.wishes[n].key != rule.name]
        if governed and rule.name not in work.wishes:
            _make_custom(work, rule, governed)
            if rule.name in work.wishes:
                for table in (work.result.requested, work.result.pending, work.result.restored):
                    table.clear()
                _sort(work)
                then = {**work.current, **work.result.wanted}
    for name in list(work.result.requested):
        block = registry.blocked(work.note, name, then)
        if block is not None:
            del work.result.requested[name]
            _explain(work, name, block)


def _explain(work: _Work, name: str, block: registry.Block) -> None:
    wish = work.wishes[name]
    if block.by:
        message = "%s is %s while %s" % (name, block.how, block.why)
        fix = "set %s otherwise (bios_attributes), or leave %s out" % (" or ".join(dict.fromkeys(block.by)), wish.key)
        work.refuse(wish.key, wish.value, message, fix, "host")
    elif wish.raw:
        work.refuse(wish.key, wish.value, "%s is %s on this machine" % (name, block.how), "leave it out of bios_attributes")
    else:
        work.give_up(wish.key, "%s is %s" % (name, block.how))
    for table in (work.result.wanted, work.result.current, work.result.words):
        table.pop(name, None)


def _foreign(work: _Work) -> None:
    """Pending values that nobody here asked for."""
    result, choice = work.result, work.options.get("foreign_pending") or "keep"
    for name in work.bios.get("settings") or {}:
        if name not in work.wishes and "password" not in name.casefold():
            _in_force, pending = _standing(work, name)
            if pending is not NOTHING:
                result.foreign_pending[name] = {"current": work.current.get(name), "pending": pending}
    if not result.foreign_pending:
        return
    listed = ", ".join("%s: %s" % (n, v["pending"]) for n, v in sorted(result.foreign_pending.items())[:5])
    more = len(result.foreign_pending) - 5
    listed += ", and %d more" % more if more > 0 else ""
    if choice == "fail":
        message = "values are pending that nobody here asked for: %s" % listed
        fix = "apply or clear them by other means, or set bios_foreign_pending: keep or clear"
        result.problems.append(Problem("bios_foreign_pending", sorted(result.foreign_pending), message, fix, "host"))
    elif choice == "clear":
        _clear(work)
    elif result.reset_required:
        result.warnings.append("the reboot will also apply what others left pending: %s" % listed)
    else:
        result.warnings.append("others left pending values, which the next reboot applies: %s" % listed)


def _clear(work: _Work) -> None:
    """By the BMC's own action, which takes ours along; else by asking for what is in force."""
    result = work.result
    result.clear = True
    if work.bios.get("clear_action"):
        result.requested.update(result.pending)
        result.pending.clear()
        result.restored.clear()
        return
    for name, values in result.foreign_pending.items():
        if registry.blocked(work.note, name, work.current) is None and values["current"] is not None:
            result.restored[name] = values["current"]


def _finish(work: _Work) -> None:
    result = work.result
    for name in result.unsupported:
        if work.options.get("strict"):
            fix = "leave it out for this machine, or set bios_strict: false"
            work.refuse(name, name, "%s: %s" % (name, result.reasons[name]), fix)
    attributes = {**result.requested, **result.restored}
    if not attributes:
        return
    result.body = {"Attributes": attributes}
    times = work.bios.get("apply_times") or ()
    if work.platform == "dell" or (work.platform != "hpe" and ON_RESET in times):
        result.body["@Redfish.SettingsApplyTime"] = {"ApplyTime": ON_RESET}
