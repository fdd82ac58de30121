"""The one error that reaches a person: what is wrong and what to do about it."""


class UserError(Exception):
    """Bad input or a situation the user can mend; the command line prints it as one line, status 2.

    `what` states what is wrong ("PID 4711 does not exist"), `mend` what to do
    ("run `offheap ps` to see the JVMs of this machine").
    """

    def __init__(self, what: str, mend: str = "") -> None:
        super().__init__(f"{what}; {mend}" if mend else what)
        self.what = what
        self.mend = mend
