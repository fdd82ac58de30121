"""Values that look like secrets, in arguments and properties: masked before a recording has them.

A recording is passed on, attached to a ticket, kept by CI.  A value is masked for its name (password=,
apiKey=, --token) or for its form (the password in a URL, a bearer token, a known kind of key).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from offheap.recording.model import Info

MASK = "***"

# The words of a name, split where they begin: dbPassword, DB_PASSWORD, ssl.key-password2.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_LAST = re.compile(
    r"pass(word|words|wd|phrase|code)?|pwd|pw|secrets?|tokens?|keys?|apikey|credentials?|creds|auth|authorization"
    r"|bearer|cookie|signature|sig|otp|jwt"
)
_SECRET_PART = re.compile(r"password|passwd|passphrase|secret|apikey|accesskey|privatekey|token")
# Names about a secret whose value is no secret: keyStore, tokenUri, password.file.
_HARMLESS_LAST = re.compile(
    r"store|file|path|dir|type|alias|url|uri|location|algorithm|provider|format|size|length|count|timeout|enabled"
    r"|header|name|class|id|ttl|manager|encoder"
)

# name=value, anywhere: an option, a part of a query, of a JDBC URL, of an agent's options; or a header.
_PAIR = re.compile(r"""([\w.\-\[\]]+)(\s*=\s*|:[ ]+)("[^"]*"|'[^']*'|[^\s,;&"'|]+)""")
_URL = re.compile(r"([A-Za-z][\w+.\-]*://)([^/\s:@?#]*):([^/\s@]+)@")
_ORACLE = re.compile(r"(jdbc:oracle:\w+:[^/\s@]+)/([^/\s@]+)@")
_BEARER = re.compile(r"\b(bearer|basic)(\s+|%20)[\w+/=.~\-]{6,}", re.IGNORECASE)
_KNOWN = re.compile(
    r"""\b(?:
        eyJ[\w\-]{8,}\.[\w\-]{4,}\.[\w\-]*       # JSON web tokens
      | (?:AKIA|ASIA)[0-9A-Z]{16}                # of AWS
      | gh[pousr]_\w{20,} | github_pat_\w{20,}
      | glpat-[\w\-]{16,}
      | xox[abeprs]-[\w\-]{10,}                  # of Slack
      | sk-[\w\-]{20,} | sk_live_\w{16,}
      | AIza[\w\-]{30,}                          # of Google
    )""",
    re.VERBOSE,
)
_OPTION_NAME = re.compile(r"--?[A-Za-z][\w.\-]*")
# A launcher's own options are no names: -Dname has no value in the next word, -X... neither.
_OPTION = re.compile(r"--?(?![DX])[A-Za-z][\w.\-]*")


def arguments(words: Iterable[str]) -> tuple[str, ...]:
    """A command line; the word behind an option such as `--password` is masked, too."""
    masked: list[str] = []
    secret = False
    for word in words:
        masked.append(MASK if secret and not word.startswith("-") else _argument(word))
        secret = bool(_OPTION.fullmatch(word)) and is_secret(word)
    return tuple(masked)


def _argument(word: str) -> str:
    name, sign, _ = word.partition("=")
    # All of it: the value may hold any character.
    return f"{name}={MASK}" if sign and _OPTION_NAME.fullmatch(name) and is_secret(name) else text(word)


def command(line: str) -> str:
    """A command line whose words are joined by spaces, such as sun.java.command."""
    return " ".join(arguments(line.split(" ")))


def properties(values: Mapping[str, str]) -> dict[str, str]:
    return {
        name: MASK if value and is_secret(name) else command(value) if " " in value else text(value)
        for name, value in values.items()
    }


def text(value: str) -> str:
    """One value, of which only what looks like a secret is masked."""
    value = _URL.sub(rf"\1\2:{MASK}@", value)
    value = _ORACLE.sub(rf"\1/{MASK}@", value)
    value = _BEARER.sub(rf"\1\2{MASK}", value)
    value = _KNOWN.sub(MASK, value)
    return _PAIR.sub(_masked_pair, value)


def is_secret(name: str) -> bool:
    """Whether a value of this name is masked."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or _HARMLESS_LAST.fullmatch(words[-1]):
        return False
    return bool(_SECRET_LAST.fullmatch(words[-1]) or _SECRET_PART.search("".join(words)))


def _masked_pair(match: re.Match[str]) -> str:
    name, sign, value = match.groups()
    if is_secret(name):
        return f"{name}{sign}{MASK}"
    # The value may be a pair itself: -Dopts=password=x.
    return f"{name}{sign}{_PAIR.sub(_masked_pair, value)}"


def masked(info: Info) -> Info:
    """Without the values of arguments and properties that look like secrets."""
    return replace(
        info,
        command_line=arguments(info.command_line),
        jvm_flags=arguments(info.jvm_flags),
        properties=properties(info.properties),
    )
