"""The images of the pages by task."""

from __future__ import annotations

from docs import recipes


def test_pages_show_the_images_that_their_code_draws() -> None:
    assert {path.stem for path in recipes.FOLDER.iterdir()} == set(recipes.PAGES), "run `python -m docs.all`"
    for page in recipes.PAGES:
        text = (recipes.FOLDER.parent / f"{page}.md").read_text(encoding="utf-8")
        assert f"](images/{page}.jpg)" in text
        assert f'path="{page}.png"' in text
