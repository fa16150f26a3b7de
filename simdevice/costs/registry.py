"""The one registry of cost rules: pure functions of a signature, found by canonical operator name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from simdevice.errors import SpecError, UncostedOperatorError, UnknownNameError
from simdevice.records import CATEGORIES, Cost, Signature

__all__ = ["Costs", "Rule", "RuleFunction", "base_name", "register", "registered", "streamed"]

RuleFunction = Callable[[Signature], Cost]


@dataclass(frozen=True, slots=True)
class Rule:
    """A cost function and the call attributes it reads; only these become part of a signature."""

    function: RuleFunction
    attributes: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        code = getattr(self.function, "func", self.function).__code__  # a partial is where its function is
        return f"{code.co_filename}:{code.co_firstlineno}"


_RULES: dict[str, Rule] = {}


def register(*names: str, attributes: tuple[str, ...] = ()) -> Callable[[RuleFunction], RuleFunction]:
    """Decorator: the function costs these operators, and reads these attributes of the call.

    Raises:
        ValueError: an operator already has a rule; the message names both places.
    """

    def decorate(function: RuleFunction) -> RuleFunction:
        rule = Rule(function, attributes)
        for name in names:
            if name in _RULES:
                raise ValueError(f"two cost rules for {name!r}: {_RULES[name].where} and {rule.where}")
            _RULES[name] = rule
        return function

    return decorate


def registered() -> Mapping[str, Rule]:
    """Every rule by operator name (a live view; not for writing)."""
    return _RULES


def base_name(name: str) -> str:
    """`aten.add_` costs as `aten.add`: an in-place operator counts as its out-of-place form."""
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def streamed(signature: Signature, category: str, flops: int | None, reason: str | None = None) -> Cost:
    """The usual cost: every input read once, every output written once."""
    return Cost(
        category,
        flops,
        bytes_read=sum(t.nbytes for t in signature.inputs),
        bytes_written=sum(t.nbytes for t in signature.outputs),
        weight_bytes=sum(t.nbytes for t in signature.inputs if t.is_weight),
        reason=reason,
    )


class Costs:
    """The registry with a caller's own rules on top; `strict` turns a missing rule into an error.

    An operator without a rule is category `unknown`: charged for its bytes, FLOPs unknown.

    Raises:
        SpecError: rules that are not functions under canonical operator names.
    """

    def __init__(self, rules: Mapping[str, Rule | RuleFunction] | None = None, *, strict: bool = False) -> None:
        self._own, self._strict = _own_rules(rules or {}), strict

    def rule(self, name: str) -> Rule | None:
        """The rule that costs this operator, or None."""
        for candidate in (name, base_name(name)):
            rule = self._own.get(candidate) or _RULES.get(candidate)
            if rule is not None:
                return rule
        return None

    def attributes(self, name: str) -> tuple[str, ...]:
        """The call attributes that belong in this operator's signature."""
        rule = self.rule(name)
        return () if rule is None else rule.attributes

    def __call__(self, signature: Signature) -> Cost:
        """Cost one signature.

        Raises:
            UncostedOperatorError: no rule, and `strict` was asked for.
            SpecError: a caller's rule raised, or gave something that is no cost.
        """
        rule = self.rule(signature.name)
        if rule is not None:
            own = rule in self._own.values()
            cost = _asked(rule, signature) if own else rule.function(signature)
            if self._strict and cost.category == "unknown":
                raise UncostedOperatorError(f"no cost for {signature.name!r}: {cost.reason}")
            return cost
        if self._strict:
            raise UncostedOperatorError(
                f"no cost rule for {signature.name!r}: give one as rules={{{signature.name!r}: ...}}"
            )
        return streamed(signature, "unknown", None, reason="no cost rule")

    def unknown(self, signature: Signature, reason: str) -> Cost:
        """The cost of a call that no rule can know, whatever its name: its bytes, with the reason.

        Raises:
            UncostedOperatorError: `strict` was asked for.
        """
        if self._strict:
            raise UncostedOperatorError(f"no cost for {signature.name!r}: {reason}")
        return streamed(signature, "unknown", None, reason=reason)


def _own_rules(rules: Mapping[str, Rule | RuleFunction]) -> dict[str, Rule]:
    """A caller's rules; a name that could never match is said, not ignored."""
    if not isinstance(rules, Mapping):
        raise SpecError(f"expected rules as a mapping of operator names to functions, got {rules!r}")
    own = {}
    for name, rule in rules.items():
        if not isinstance(name, str) or "::" in name or "." not in name:
            raise SpecError(f"expected the name of an operator such as 'aten.mm' for a rule, got {str(name)!r}")
        own[name] = rule if isinstance(rule, Rule) else Rule(rule)
        if not callable(own[name].function):
            raise SpecError(f"expected a function of a signature as the rule for {name!r}, got {rule!r}")
    return own


def _asked(rule: Rule, signature: Signature) -> Cost:
    """What a caller's rule says, checked: totals and reports trust a cost."""
    try:
        cost = rule.function(signature)
    except Exception as error:
        reason = " ".join(str(error).split())
        raise SpecError(f"the rule for {signature.name!r} raised {type(error).__name__}: {reason}") from error
    if not isinstance(cost, Cost):
        raise SpecError(f"expected a Cost from the rule for {signature.name!r}, got {cost!r}")
    if cost.category not in CATEGORIES:
        raise UnknownNameError(f"category from the rule for {signature.name!r}", cost.category, CATEGORIES)
    for field in ("flops", "bytes_read", "bytes_written", "weight_bytes"):
        value = getattr(cost, field)
        if not (isinstance(value, int) and value >= 0) and not (field == "flops" and value is None):
            raise SpecError(f"expected {field} of {signature.name!r} as a whole number from 0 on, got {value!r}")
    return cost
