"""Who may operate, as the analyzer keeps it: names with hashes of their secrets, and sessions until they end."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Column, Float, MetaData, String, Table, Text, delete, insert, select

from croupier.service.store.database import Database

META = MetaData()

_operators = Table(
    "operators",
    META,
    Column("name", String(63), primary_key=True),
    # Argon2id in its usual text form; empty where there is no password.
    Column("password", Text, nullable=False),
    # SHA-256: a token is 32 random bytes, which nobody guesses.
    Column("token", String(64), nullable=False, unique=True),
)
_sessions = Table(
    "sessions",
    META,
    # SHA-256 of the cookie.
    Column("mark", String(64), primary_key=True),
    Column("operator", String(63), nullable=False, index=True),
    Column("expires", Float, nullable=False),
)


@dataclass(frozen=True)
class Account:
    """An operator, and what their secrets are known by."""

    name: str
    password: str
    token: str


class Operators:
    """Operators and their sessions. Who is removed, or gets other secrets, is logged out everywhere."""

    database: Database

    def put_operator(self, account: Account) -> bool:
        """Let somebody operate, with these secrets and no others; whether they were known before."""
        with self.database.write() as connection:
            known = connection.execute(delete(_operators).where(_operators.c.name == account.name)).rowcount
            connection.execute(delete(_sessions).where(_sessions.c.operator == account.name))
            connection.execute(insert(_operators).values(vars(account)))
        return bool(known)

    def remove_operator(self, name: str) -> bool:
        """Let somebody operate no longer; whether they did."""
        with self.database.write() as connection:
            connection.execute(delete(_sessions).where(_sessions.c.operator == name))
            return bool(connection.execute(delete(_operators).where(_operators.c.name == name)).rowcount)

    def operator(self, name: str) -> Account | None:
        return self._account(_operators.c.name == name)

    def operator_with(self, token: str) -> Account | None:
        """Whose text token has this hash."""
        return self._account(_operators.c.token == token)

    def _account(self, this: object) -> Account | None:
        with self.database.read() as connection:
            row = connection.execute(select(_operators).where(this)).first()  # type: ignore[arg-type]
        return None if row is None else Account(*row)

    def operators(self) -> list[str]:
        with self.database.read() as connection:
            return list(connection.execute(select(_operators.c.name).order_by(_operators.c.name)).scalars())

    def begin_session(self, mark: str, operator: str, now: float, expires: float) -> None:
        """Remember a session, and forget those that are over."""
        with self.database.write() as connection:
            connection.execute(delete(_sessions).where(_sessions.c.expires <= now))
            connection.execute(insert(_sessions).values(mark=mark, operator=operator, expires=expires))

    def session(self, mark: str) -> tuple[str, float] | None:
        """Whose session this is, and until when."""
        with self.database.read() as connection:
            row = connection.execute(select(_sessions).where(_sessions.c.mark == mark)).first()
        return None if row is None else (row.operator, row.expires)

    def end_session(self, mark: str) -> None:
        with self.database.write() as connection:
            connection.execute(delete(_sessions).where(_sessions.c.mark == mark))

    def end_sessions(self, operator: str | None = None) -> None:
        """End all of somebody's sessions, or everybody's."""
        everybody = delete(_sessions)
        with self.database.write() as connection:
            connection.execute(everybody if operator is None else everybody.where(_sessions.c.operator == operator))
