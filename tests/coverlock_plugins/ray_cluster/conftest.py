from pathlib import Path

from tests.coverlock_sdk.scaling.conftest import folder, toy

__all__ = ["folder", "rows_in", "toy"]


def rows_in(out: Path) -> list[dict]:
    """The rows of all files of results, in the order of the files."""
    import pyarrow.parquet as pq

    parts = sorted(out.glob("*.parquet"))
    return [row for part in parts for row in pq.read_table(part).to_pylist()]
