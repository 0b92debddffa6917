"""The operator's rules on oslo.policy: its language and files, evaluated without its per-call file checks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from oslo_policy import _checks, policy

from zun.domain.caller import Caller
from zun.domain.errors import PolicyNotAuthorized
from zun.policies import list_rules

LOG = logging.getLogger(__name__)
_LOOK_EVERY = 1.0
_MEMO = 8192


class PolicyFileError(Exception):
    """The policy file cannot be used; the message says why."""


class _RuleSet:
    """Parsed rules, and which fields have rules of their own."""

    def __init__(self, conf: Any, texts: Mapping[str, str]) -> None:
        self.enforcer = policy.Enforcer(conf, use_conf=False)
        self.enforcer.suppress_default_change_warnings = True
        self.enforcer.set_rules(policy.Rules.from_dict(dict(texts)), overwrite=True, use_conf=False)
        self.rules: Mapping[str, Any] = self.enforcer.rules
        self._memo: dict[tuple[str, Caller], bool] = {}
        self._may_remember = not any("http:" in text or "https:" in text for text in texts.values())
        self.fields: dict[str, list[tuple[str, str]]] = {}
        for name in texts:
            prefix, _, field = name.rpartition(":")
            if prefix:
                self.fields.setdefault(prefix, []).append((field, name))

    def check(self, rule: str, caller: Caller, target: Mapping[str, Any] | None) -> bool:
        """The own project's answers are remembered: oslo.policy inspects its checks at each call, and they depend on
        the caller alone (rules that ask another server aside)."""
        if target is not None or not self._may_remember:
            return self._evaluate(rule, caller, _target(caller, target))
        known = self._memo.get((rule, caller))
        if known is None:
            if len(self._memo) >= _MEMO:
                self._memo.clear()
            known = self._evaluate(rule, caller, _target(caller, None))
            self._memo[rule, replace(caller, token=None)] = known
        return known

    def _evaluate(self, rule: str, caller: Caller, target: Mapping[str, Any]) -> bool:
        found = self.rules.get(rule)
        return found is not None and bool(found(target, _credentials(caller), self.enforcer, rule))


class PolicyEnforcer:
    """Implements ``zun.api.call.Policy``. A changed file is noticed within a second; a broken one is refused and the
    last good rules stay. At start there are none, and defaults may allow what the file forbids: PolicyFileError."""

    def __init__(self, conf: Any, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._conf = conf
        self._monotonic = monotonic
        self._defaults = {rule.name: rule.check_str for rule in list_rules()}
        self._lock = threading.Lock()
        self._stamp: tuple[str, int, int] | None = None
        self._looked = monotonic()
        self._set = _RuleSet(conf, self._defaults)
        path = self._path()
        self._stamp = _stamp(path)
        if path is not None and self._stamp is not None:
            try:
                self._set = self._load(path)
            except PolicyFileError as error:
                raise PolicyFileError(f"[api]/policy_file {path} cannot be used: {error}") from error

    # -- the port ---------------------------------------------------------------------------------

    def check(self, rule: str, caller: Caller, target: Mapping[str, Any] | None = None) -> bool:
        """Does ``rule`` allow the caller? An unknown rule denies."""
        return self._current().check(rule, caller, target)

    def enforce(self, rule: str, caller: Caller, target: Mapping[str, Any] | None = None) -> None:
        """Raise PolicyNotAuthorized (403) unless ``check``."""
        if not self.check(rule, caller, target):
            raise PolicyNotAuthorized(rule)

    def hidden_fields(self, prefix: str, caller: Caller, target: Mapping[str, Any] | None = None) -> frozenset[str]:
        """Fields whose rule ``<prefix>:<field>`` exists and denies the caller. Call it once a request, not a row."""
        rules = self._current()
        fields = rules.fields.get(prefix)
        if not fields:
            return frozenset()
        return frozenset(field for field, rule in fields if not rules.check(rule, caller, target))

    def has_rule(self, rule: str) -> bool:
        """Is there such a rule (a default, or the operator's own)?"""
        return rule in self._current().rules

    # -- the file ---------------------------------------------------------------------------------

    def _current(self) -> _RuleSet:
        now = self._monotonic()
        if now - self._looked >= _LOOK_EVERY and self._lock.acquire(blocking=False):
            try:
                self._looked = now
                self._look()
            finally:
                self._lock.release()
        return self._set

    def _look(self) -> None:
        path = self._path()
        stamp = _stamp(path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        if path is None or stamp is None:
            self._set = _RuleSet(self._conf, self._defaults)
            return
        try:
            self._set = self._load(path)
        except PolicyFileError as error:
            LOG.error("action=policy_load outcome=refused file=%s error=%s kept=last_good_rules", path, error)
            return
        LOG.info("action=policy_load outcome=done file=%s", path)

    def _path(self) -> Path | None:
        name: str = self._conf.api.policy_file
        if not name:
            return None
        if Path(name).is_absolute():
            return Path(name)
        found = self._conf.find_file(name)
        return Path(found) if found else None

    def _load(self, path: Path) -> _RuleSet:
        try:
            overrides = policy.parse_file_contents(path.read_text(encoding="utf-8")) or {}
        except (OSError, ValueError) as error:
            raise PolicyFileError(" ".join(str(error).split())) from error
        if not isinstance(overrides, dict):
            raise PolicyFileError("it has to map rule names to rules")
        for name, text in overrides.items():
            if not isinstance(name, str) or not isinstance(text, str):
                raise PolicyFileError(f"rule {name!r} has to be text")
            if text.strip() != "!" and isinstance(policy.Rules.from_dict({name: text})[name], _checks.FalseCheck):
                raise PolicyFileError(f"rule {name!r} cannot be understood: {text!r}")
        loaded = _RuleSet(self._conf, {**self._defaults, **overrides})
        try:
            loaded.enforcer.check_rules(raise_on_violation=True)
        except policy.InvalidDefinitionError as error:
            raise PolicyFileError(str(error)) from error
        return loaded


def _stamp(path: Path | None) -> tuple[str, int, int] | None:
    try:
        found = path.stat() if path else None
    except OSError:
        return None
    return (str(path), found.st_mtime_ns, found.st_size) if found else None


def _target(caller: Caller, target: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return target if target is not None else {"project_id": caller.project_id or "", "user_id": caller.user_id}


def _credentials(caller: Caller) -> dict[str, Any]:
    return {
        "user_id": caller.user_id,
        "project_id": caller.project_id or "",  # as the records of callers without a project have it
        "roles": list(caller.roles),
        "is_admin": caller.is_admin,
        "user_name": caller.user_name,
        "project_name": caller.project_name,
        "user_domain_id": caller.user_domain_id,
        "project_domain_id": caller.project_domain_id,
        "domain_id": caller.domain_id,
        "system_scope": caller.system_scope,
        "is_admin_project": caller.is_admin_project,
        "service_user_id": caller.service_user_id,
        "service_roles": list(caller.service_roles),
    }
