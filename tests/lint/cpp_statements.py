"""The statements of a C++ source that hold string literals, found without a compiler.

A lexical reader: it knows comments, literals, preprocessor lines and braces, and needs no more, as
clang-format gives all sources one shape.
"""

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<skipped> //[^\n]* | /\*.*?\*/ | ^[ \t]*\#(?:[^\n\\]|\\.|\\\n)* )
      | R"(?P<mark>\w*)\((?P<raw>.*?)\)(?P=mark)"
      | "(?P<string>(?:[^"\\\n]|\\.)*)"
      | (?P<character>'(?:[^'\\\n]|\\.)+')
      | (?P<boundary>[;{}])
      | (?P<blank>\s+)
      | (?P<code>\w+|.)""", re.VERBOSE | re.DOTALL | re.MULTILINE)
_FUNCTION = re.compile(r"^[^(=\[]*?(?P<name>~?\w+) ?\(.*\)[^()]*$|^[^(=\[]*?(?P<constructor>\w+)\(.*\) :")
_CONSTANT = re.compile(r"\bchar (?P<name>k\w+)\[\] = $|\bchar\* (?:const )?(?P<pointer>k\w+) = $")
_NO_FUNCTIONS = {"constexpr", "if", "for", "while", "switch", "catch", "return"}
_ESCAPES = {"n": "\n", "t": "\t"}


@dataclass
class Statement:
    """What is between two of the characters ; { and }, with "" for each literal in its code."""

    line: int = 0
    owner: str = ""  # the function around it, or the constant that it defines
    code: str = ""
    literals: list = field(default_factory=list)  # adjacent ones joined, as the compiler does


def _unescaped(literal):
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), literal, flags=re.DOTALL)


def _name_of_function(code):
    """The name of the function whose body begins behind this code, or None; lambdas have none."""
    match = _FUNCTION.search(code.strip()) if code.count("(") == code.count(")") else None
    name = match and (match["name"] or match["constructor"])
    return None if name in _NO_FUNCTIONS else name


class _Reader:

    def __init__(self):
        self.found = []
        self._functions = []  # for each open brace the function that it belongs to, or None
        self._current = Statement()
        self._after_literal = False

    def read(self, text):
        line = 1
        for token in _TOKEN.finditer(text):
            self._take(token, line)
            line += token[0].count("\n")
        self._end("")
        return self.found

    def _take(self, token, line):
        if token["skipped"] is not None:
            return
        if token["blank"] is not None:
            self._current.code += " " if self._current.code[-1:].strip() else ""
            return
        literal = token["raw"] if token["raw"] is not None else token["string"]
        if token["boundary"] is not None:
            self._end(token["boundary"])
        elif literal is not None:
            self._take_literal(literal if token["raw"] is not None else _unescaped(literal), line)
        else:
            self._current.line = self._current.line or line
            self._current.code += token[0]
        self._after_literal = literal is not None

    def _take_literal(self, literal, line):
        statement = self._current
        if self._after_literal:
            statement.literals[-1] += literal
            return
        constant = _CONSTANT.search(statement.code)
        if constant:
            statement.owner = constant["name"] or constant["pointer"]
        statement.line = statement.line if statement.literals else line
        statement.literals.append(literal)
        statement.code += '""'

    def _end(self, boundary):
        ended = self._current
        ended.owner = ended.owner or next((name for name in reversed(self._functions) if name), "")
        self.found.append(ended)
        self._current = Statement()
        if boundary == "{":
            self._functions.append(_name_of_function(ended.code))
            # "Error{" and "Finding{" are a part of what is inside of the braces.
            type_name = re.search(r"(\w+) ?$", ended.code)
            self._current.code = type_name[1] + "{ " if type_name else ""
        elif boundary == "}" and self._functions:
            self._functions.pop()


def statements(text):
    """The statements of a source, in their order."""
    return _Reader().read(text)
