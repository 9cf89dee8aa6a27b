"""What the README shows is what happens."""

import contextlib
import io
import re
from pathlib import Path

README = (Path(__file__).parent.parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_examples_print_what_the_readme_says() -> None:
    codes = re.findall(r"```python\n((?:(?!```).)*)```\n\nprints", README, re.DOTALL)
    printed = re.findall(r"\nprints\n\n```\n(.*?)```", README, re.DOTALL)
    assert len(codes) == len(printed) == 2
    for code, said in zip(codes, printed, strict=True):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, "README.md", "exec"), {})
        assert out.getvalue() == said
