"""The live page in a browser."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import Dataset

from dali_proxy import DALIServer, DataLoader
from pipeline import fn, pipeline_def, types

playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")


@pipeline_def(num_threads=2, device_id=None, batch_size=4)
def masked() -> Any:
    image = fn.external_source(name="image")
    mask = fn.cast(fn.reductions.mean(image, axes=2) > 128, dtype=types.INT32)
    return fn.flip(image, horizontal=0), mask, fn.external_source(name="boxes")


class Squares(Dataset[Any]):
    def __init__(self, proxy: Any) -> None:
        self.proxy = proxy

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Any:
        image = np.full((60, 80, 3), 40, np.uint8)
        image[10:40, 20:60] = 200
        return self.proxy(image=image, boxes=np.array([[20, 10, 60, 40]], np.float32))


def test_page_shows_charts_the_graph_and_samples(tmp_path: Path) -> None:
    stop = threading.Event()
    with playwright.sync_playwright() as browsers, DALIServer(masked(), mode="thread") as server:
        system = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if system is None and not Path(browsers.chromium.executable_path).exists():
            pytest.skip("needs Chromium: playwright install chromium")
        browser = browsers.chromium.launch(executable_path=system, args=["--no-sandbox"])

        def train() -> None:
            loader = DataLoader(server, Squares(server.proxy), batch_size=4)
            while not stop.is_set():
                for _ in loader:
                    pass

        training = threading.Thread(target=train)
        try:
            page = browser.new_page()
            problems: list[str] = []
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
            page.goto(server.dashboard().url)
            page.locator("#flight polyline").first.wait_for(state="attached")
            labels = page.locator("#flight svg text").all_text_contents()[:3]
            assert len(set(labels)) == 3, f"the axis of an idle server has the labels {labels}"
            training.start()
            page.locator("#samples img").wait_for()
            page.locator("#throughput polyline").wait_for()
            page.locator("#waits polygon").first.wait_for()
            page.locator("#graph text", has_text="fn.flip").wait_for()
            assert "masks of output 1; boxes of output 2" in page.inner_text("#samples")
            assert "fn.flip" in page.inner_text("#operators")
            assert "limits the speed" in page.inner_text("#advice")
            page.set_viewport_size({"width": 360, "height": 700})
            assert page.evaluate("document.documentElement.scrollWidth") == 360, "the page is wider than a phone"
            assert problems == []
        finally:
            stop.set()
            if training.ident is not None:
                training.join()
            browser.close()
