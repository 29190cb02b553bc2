#!/usr/bin/env bash
# The step of the action that decides: FILE, CANNOT_TELL and LINK come from the environment. Ends with assay's own code.
set -uo pipefail
words=(ci --file "${FILE:-assay.yaml}")
[ -z "${CANNOT_TELL:-}" ] || words+=(--cannot_tell "$CANNOT_TELL")
[ -z "${LINK:-}" ] || words+=(--link "$LINK")
"${ASSAY_PYTHON:-python}" -m assay "${words[@]}"
code=$?
place="$(dirname "${FILE:-assay.yaml}")/assay-ci"
case $code in 0) outcome=passed ;; 1) outcome=failed ;; 4) outcome="cannot tell" ;; *) outcome="error $code" ;; esac
{ echo "outcome=$outcome"; echo "comment=$place/comment.md"; } >> "${GITHUB_OUTPUT:-/dev/null}"
exit $code
