import zipfile

import pytest

from scripts.check_distribution import NEEDED, faults_of_wheel


@pytest.fixture
def wheel(tmp_path):
    path = tmp_path / "coverlock_sdk-0.1.0-py3-none-any.whl"

    def write(*extra):
        with zipfile.ZipFile(path, "w") as archive:
            for name in (*NEEDED, "coverlock_sdk-0.1.0.dist-info/METADATA", *extra):
                archive.writestr(name.rstrip("/"), "") if not name.endswith("/") else (
                    archive.writestr(f"{name}page.html", "")
                )
        return path

    return write


def test_a_complete_wheel_has_no_faults(wheel):
    assert faults_of_wheel(wheel()) == []


@pytest.mark.parametrize(
    "stray", ["experiments/tables.py", "tests/conftest.py", "coverlock_sdk/key.json", "other/a.py"]
)
def test_what_does_not_belong_is_named(wheel, stray):
    assert any(stray.split("/")[0] in fault for fault in faults_of_wheel(wheel(stray)))


def test_missing_weights_are_named(tmp_path):
    path = tmp_path / "coverlock_sdk-0.1.0-py3-none-any.whl"
    zipfile.ZipFile(path, "w").close()
    assert f"{path.name} lacks coverlock_sdk/py.typed" in faults_of_wheel(path)
