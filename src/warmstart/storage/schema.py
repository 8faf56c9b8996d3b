"""The migrations of all packages.

The SQL of a migration is in two files of the package that owns the tables, `migrations/NUMBER_WHAT.sqlite.sql` and
`migrations/NUMBER_WHAT.postgres.sql`. Stores out there were made by it, so neither the SQL nor the name of a released
migration ever changes. docs/storage.md says how to add one.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

# All names in order. A store that has others was made by a newer version.
NAMES = tuple(Path(__file__).with_name("migrations").joinpath("names.txt").read_text(encoding="utf-8").split())

# Earlier names of migrations, which some stores know them by.
ALIASES = {"sessions/0003_scrubs": "sessions/0004_scrubs", "vectors/0001_tables": "recall/0002_vectors"}


class Migration(NamedTuple):
    """One change of a package's tables; `name` is `package/number_what`."""

    name: str
    folder: Path

    def script(self, dialect: str) -> str:
        """The SQL. A first line `-- only if: QUERY` limits it to stores where that returns a row.

        On PostgreSQL `{schema}` is the schema of the store.
        """
        return Path(self.folder, f"{self.name.split('/')[1]}.{dialect}.sql").read_text(encoding="utf-8")


def migrations_of(package: str, module: str) -> tuple[Migration, ...]:
    """The migrations of a package, whose SQL is beside `module`."""
    folder = Path(module).parent / "migrations"
    return tuple(Migration(name, folder) for name in NAMES if name.startswith(f"{package}/"))
