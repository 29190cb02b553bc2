#!/usr/bin/env bash
# The step of the action that decides: FILE, CANNOT_TELL and LINK come from the environment. Ends with assay's own code.
set -uo pipefail
unset COLUMNS # the last line is read below, and must stay one
words=(ci --file "${FILE:-assay.yaml}")
[ -z "${CANNOT_TELL:-}" ] || words+=(--cannot_tell "$CANNOT_TELL")
[ -z "${LINK:-}" ] || words+=(--link "$LINK")
said="$(mktemp)"
"${ASSAY_PYTHON:-python}" -m assay "${words[@]}" | tee "$said"
code=${PIPESTATUS[0]}
# The last line is `passed: reports in DIR`; what cannot be told stays that, whatever code it is mapped to.
last="$(tail -n 1 "$said")"
rm -f "$said"
case "$last" in
  *": reports in "*) outcome="${last%%: reports in *}" comment="${last#*: reports in }/comment.md" ;;
  *) outcome="error $code" comment="" ;;
esac
{ echo "outcome=$outcome"; echo "comment=$comment"; } >> "${GITHUB_OUTPUT:-/dev/null}"
exit "$code"
