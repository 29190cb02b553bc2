"""A judged sample in the viewer: every verdict with its explanation."""

from __future__ import annotations

import re
from pathlib import Path

from starlette.testclient import TestClient
from tests.scoring.judges.bench import judge, run, write_bench
from tests.scoring.judges.test_labels import is_right, label

from assay.evaluation import score_again
from assay.view import create_app


def test_the_sample_page_shows_every_verdict_its_explanation_and_what_people_say(tmp_path: Path) -> None:
    write_bench(tmp_path, judged="scorer: {type: judge, judges: [judge, second]}")
    roles = {"judge": judge(tmp_path), "second": judge(tmp_path, "late", "second")}
    run(tmp_path, "judged", run_dir=str(tmp_path / "run"), roles=roles)
    labels = label(tmp_path, "run", is_right, every=1)
    score_again(tmp_path / "run", {"labels": [str(labels)]}, run_dir=tmp_path / "runs" / "checked")
    app = create_app([tmp_path / "runs"], scratch=tmp_path)
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        found = re.search(r'href="/run/([^"/]+)"', client.get("/").text)
        assert found is not None
        page = client.get(f"/sample/{found.group(1)}/1/judged").text
    shown = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    assert "Verdicts judge correct Seen." in shown
    assert "second could not be parsed Let me think." in shown
    assert "second correct asked once more Seen." in shown
    assert "people say ✓ 1" in shown
