import pytest

from coverlock_sdk.errors import CoverLockError, MissingModelError, RuntimeUnavailableError, needs


@pytest.mark.parametrize(
    ("package", "named"),
    [("Nothing", r"Nothing \(No module named 'nothing_'\)"), (None, "the package 'nothing_'")],
)
def test_a_missing_package_is_named_with_the_command_that_installs_it(package, named):
    sentence = rf"this needs {named}: pip install 'coverlock-sdk\[torch,bench\]'"
    with pytest.raises(MissingModelError, match=sentence), needs("this", package, "torch,bench"):
        import nothing_  # noqa: F401


def test_other_errors_pass_and_the_kind_may_be_chosen():
    with pytest.raises(CoverLockError, match="^mine$"), needs("this", None, "cpu"):
        raise CoverLockError("mine")
    with pytest.raises(RuntimeUnavailableError), needs("it", "x", "cpu", RuntimeUnavailableError):
        raise ImportError("broken")
