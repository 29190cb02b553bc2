#!/usr/bin/env bash
# A worsened model: the same weights under a chat template that reads a field which messages do not have.
set -euo pipefail
from="${ASSAY_HOME:-$HOME/.cache/assay}/models/smollm2-135m"
mkdir -p worsened
for file in "$from"/*; do
  case "$file" in *.jinja | *tokenizer_config.json) ;; *) ln -sf "$file" worsened/ ;; esac
done
python3 - "$from" <<'PY'
import json, sys
from pathlib import Path
config = json.loads((Path(sys.argv[1]) / "tokenizer_config.json").read_text())
config.pop("chat_template", None)
Path("worsened/tokenizer_config.json").write_text(json.dumps(config))
right = (Path(sys.argv[1]) / "chat_template.jinja").read_text()
Path("worsened/chat_template.jinja").write_text(right.replace("message['content']", "(message['text'] or '')"))
PY
sed 's/pretrained: smollm2-135m/pretrained: worsened/; s/name: assistant/name: worsened/' assay.yaml > worsened.yaml
