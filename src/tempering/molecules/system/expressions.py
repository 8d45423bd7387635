"""OpenMM's expressions as JAX: text such as `k*(r-r0)^2; k=2*half` in, a function of arrays out.

Consumes the language of OpenMM's custom forces (Lepton): numbers, names, `+ - * / ^`, its functions, tables, and
definitions after `;` that whatever stands to their left may use. Produces syntax trees, which hold no arrays and no
Python code: nothing is ever handed to `eval`, so names such as `or` and `lambda` are names like any other.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp

from tempering.errors import SettingsError
from tempering.molecules.system.tables import Table
from tempering.types import Array

__all__ = ["Expression", "evaluate", "parse"]

_TOKEN = re.compile(
    r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([^\s()+\-*/^,;=\d.][^\s()+\-*/^,;=]*)|(.))"
)
_PRECEDENCE = {"+": 0, "-": 0, "*": 1, "/": 1, "^": 3}
_NEGATION = 2
"""Of a leading minus: below the power, above the product, so that -x^2 is -(x^2)."""

_LARGEST_PRODUCT = 16
"""Whole exponents up to this become products, which are exact for negative bases and cheaper than a power."""


def _power(base: Any, exponent: Any) -> Any:
    is_whole = isinstance(exponent, float) and exponent.is_integer() and abs(exponent) <= _LARGEST_PRODUCT
    if is_whole and not isinstance(base, float):
        return jax.lax.integer_pow(base, int(exponent))
    if isinstance(exponent, float) and exponent == 0.5:
        return jnp.sqrt(base)
    return jnp.power(*_arrays(base, exponent))


def _arrays(*values: Any) -> tuple[Any, ...]:
    """Numbers beside arrays as arrays of the same dtype: `atan2` and its like take no mixture."""
    dtype = next((value.dtype for value in values if isinstance(value, jax.Array)), None)
    return tuple(value if isinstance(value, jax.Array) else jnp.asarray(value, dtype) for value in values)


_FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "+": (2, lambda a, b: a + b),
    "-": (2, lambda a, b: a - b),
    "*": (2, lambda a, b: a * b),
    "/": (2, lambda a, b: a / b),
    "^": (2, _power),
    "negate": (1, lambda x: -x),
    "sqrt": (1, jnp.sqrt),
    "exp": (1, jnp.exp),
    "log": (1, jnp.log),
    "sin": (1, jnp.sin),
    "cos": (1, jnp.cos),
    "sec": (1, lambda x: 1.0 / jnp.cos(x)),
    "csc": (1, lambda x: 1.0 / jnp.sin(x)),
    "tan": (1, jnp.tan),
    "cot": (1, lambda x: 1.0 / jnp.tan(x)),
    "asin": (1, jnp.arcsin),
    "acos": (1, jnp.arccos),
    "atan": (1, jnp.arctan),
    "atan2": (2, lambda y, x: jnp.arctan2(*_arrays(y, x))),
    "sinh": (1, jnp.sinh),
    "cosh": (1, jnp.cosh),
    "tanh": (1, jnp.tanh),
    "erf": (1, lambda x: jax.lax.erf(*_arrays(x))),
    "erfc": (1, lambda x: jax.lax.erfc(*_arrays(x))),
    "step": (1, lambda x: jnp.where(x >= 0, 1.0, 0.0)),
    "delta": (1, lambda x: jnp.where(x == 0, 1.0, 0.0)),
    "square": (1, lambda x: x * x),
    "cube": (1, lambda x: x * x * x),
    "recip": (1, lambda x: 1.0 / x),
    "min": (2, jnp.minimum),
    "max": (2, jnp.maximum),
    "abs": (1, jnp.abs),
    "floor": (1, jnp.floor),
    "ceil": (1, jnp.ceil),
    "select": (3, lambda condition, a, b: jnp.where(condition != 0, a, b)),
}


@dataclass(frozen=True, eq=False)
class Expression:
    """A number, a name, or a function of expressions. Shared where a definition is used twice, compared by identity."""

    kind: str
    value: Any
    arguments: tuple["Expression", ...] = ()

    @cached_property
    def variables(self) -> frozenset[str]:
        """The names that it leaves free."""
        own = {self.value} if self.kind == "name" else set()
        return frozenset(own.union(*(argument.variables for argument in self.arguments)))


def parse(text: str, tables: Mapping[str, int] | None = None) -> Expression:
    """The expression that a text says.

    Args:
        text: in OpenMM's syntax, definitions included.
        tables: tabulated functions that it may call, with the number of their arguments.
    """
    tables = tables or {}
    main, *definitions = text.split(";")
    known: dict[str, Expression] = {}
    for definition in reversed(definitions):  # a definition may use those to its right
        if not definition.strip():
            continue
        name, equals, body = definition.partition("=")
        if not equals or not name.strip():
            raise SettingsError(
                f"{definition.strip()!r} in the expression {text!r} is not a definition: write name=value"
            )
        known[name.strip()] = _Parser(body, text, known, tables).parse()
    return _Parser(main, text, known, tables).parse()


class _Parser:
    """Precedence climbing over the tokens of one part of a text."""

    def __init__(self, part: str, text: str, known: Mapping[str, Expression], tables: Mapping[str, int]):
        self.tokens = [match.groups() for match in _TOKEN.finditer(part.rstrip())]
        self.text, self.known, self.tables, self.place = text, dict(known), tables, 0

    def parse(self) -> Expression:
        node = self._operation(0)
        if self.place != len(self.tokens):
            raise self._error(f"{self._symbol()!r} is out of place")
        return node

    def _operation(self, lowest: int) -> Expression:
        left = self._operand()
        while (symbol := self._symbol()) in _PRECEDENCE and _PRECEDENCE[symbol] >= lowest:
            self.place += 1
            # Only the power is right associative: 2^3^2 is 2^(3^2).
            right = self._operation(_PRECEDENCE[symbol] + (symbol != "^"))
            left = _folded(symbol, left, right)
        return left

    def _operand(self) -> Expression:
        if self.place == len(self.tokens):
            raise self._error("it ends too early")
        number, name, symbol = self.tokens[self.place]
        self.place += 1
        if number is not None:
            return Expression("number", float(number))
        if name is not None:
            return self._call(name) if self._symbol() == "(" else self.known.get(name, Expression("name", name))
        if symbol == "-":
            operand = self._operation(_NEGATION)
            return (
                Expression("number", -operand.value)
                if operand.kind == "number"
                else Expression("call", "negate", (operand,))
            )
        if symbol == "(":
            node = self._operation(0)
            self._expect(")")
            return node
        raise self._error(f"{symbol!r} is out of place")

    def _call(self, name: str) -> Expression:
        if name not in self.tables and (name not in _FUNCTIONS or name == "negate"):
            known = ", ".join(sorted(word for word in {*_FUNCTIONS, *self.tables} if word[0].isalpha()))
            raise self._error(f"the function {name!r} is not known; known are {known}")
        arity = self.tables[name] if name in self.tables else _FUNCTIONS[name][0]
        self._expect("(")
        arguments = [self._operation(0)]
        while self._symbol() == ",":
            self.place += 1
            arguments.append(self._operation(0))
        self._expect(")")
        if len(arguments) != arity:
            raise self._error(f"{name} takes {arity} arguments, not {len(arguments)}")
        return Expression("table" if name in self.tables else "call", name, tuple(arguments))

    def _symbol(self) -> str | None:
        return self.tokens[self.place][2] if self.place < len(self.tokens) else None

    def _expect(self, symbol: str) -> None:
        if self._symbol() != symbol:
            raise self._error(f"{symbol!r} is missing")
        self.place += 1

    def _error(self, reason: str) -> SettingsError:
        return SettingsError(f"the expression {self.text!r} cannot be translated: {reason}; correct it in the System")


def _folded(symbol: str, left: Expression, right: Expression) -> Expression:
    """Numbers are worked out at once in double precision, so that a single-precision program rounds them once."""
    if left.kind == right.kind == "number":
        try:
            value = left.value**right.value if symbol == "^" else _FUNCTIONS[symbol][1](left.value, right.value)
        except (ZeroDivisionError, OverflowError):
            value = math.nan
        if isinstance(value, float) and math.isfinite(value):
            return Expression("number", value)
    return Expression("call", symbol, (left, right))


def evaluate(
    expression: Expression,
    varying: Mapping[str, Array],
    fixed: Mapping[str, Any],
    tables: Mapping[str, Table] | None = None,
) -> Array:
    """The expression's value, element by element, differentiable in `varying` alone.

    Its derivatives are taken forwards and handed to JAX as a rule. In reverse mode the branch that a `select` does not
    take would spoil the gradient by 0 * inf; forwards it is dropped, as in OpenMM.

    Args:
        varying: arrays of one shape, by name.
        fixed: numbers, or arrays that broadcast against that shape, by name.
        tables: the tabulated functions that it calls.

    Returns:
        An array of the shape of `varying`.
    """
    used = {name: value for name, value in varying.items() if name in expression.variables}
    some = next(iter(varying.values()))

    def value_of(*values: Array) -> Array:
        value = _value(expression, {**fixed, **dict(zip(used, values, strict=True))}, tables or {}, {})
        return jnp.broadcast_to(jnp.asarray(value, some.dtype), some.shape)

    if not used:
        return value_of()

    call = jax.custom_jvp(value_of)

    @call.defjvp
    def rule(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
        value, change = value_of(*primals), jnp.zeros_like(some)
        for place, (primal, tangent) in enumerate(zip(primals, tangents, strict=True)):
            alone = lambda v, place=place: value_of(*primals[:place], v, *primals[place + 1 :])  # noqa: E731
            _, slope = jax.jvp(alone, (primal,), (jnp.ones_like(primal),))
            change = change + slope * tangent
        return value, change

    return call(*used.values())


def _value(node: Expression, scope: Mapping[str, Any], tables: Mapping[str, Table], done: dict[int, Any]) -> Any:
    if id(node) in done:
        return done[id(node)]
    if node.kind == "number":
        value = node.value
    elif node.kind == "name":
        value = scope[node.value]
    else:
        arguments = [_value(argument, scope, tables, done) for argument in node.arguments]
        value = tables[node.value](*arguments) if node.kind == "table" else _FUNCTIONS[node.value][1](*arguments)
    done[id(node)] = value
    return value
