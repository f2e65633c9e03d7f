import numpy as np
import pytest

from coverlock_training.cache import remembered


def test_an_interrupted_cache_goes_on_where_it_stopped(tmp_path):
    computed: list[int] = []

    def compute(rows: np.ndarray) -> np.ndarray:
        if len(computed) == 4:
            computed.append(-1)
            raise KeyboardInterrupt
        computed.extend(rows.tolist())
        return rows[:, None].astype(np.float32) * 10

    def run() -> np.ndarray:
        return remembered(tmp_path, "test", {"a": 1}, compute, 7, chunk=2)

    with pytest.raises(KeyboardInterrupt):
        run()
    assert run()[:, 0].tolist() == [0, 10, 20, 30, 40, 50, 60]
    assert computed == [0, 1, 2, 3, -1, 4, 5, 6]
    run()
    assert len(computed) == 8  # nothing is computed again
