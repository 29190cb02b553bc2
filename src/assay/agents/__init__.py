"""What an agent has beside its model: tools, the sandbox that some of them run in, and the trajectory that grows step by step."""

from assay.agents.protocol import answer_message, calls_of, described, listed, result_messages, why_malformed
from assay.agents.session import Session, code_digest, offers_of
from assay.agents.tools import BrokenTool, Tool, ToolResult, ToolSource
from assay.agents.trajectory import END, AgentPlan, BranchPoint, TrajectoryState, Unplayed, UserTurn
from assay.agents.workspace import SandboxCheck, Workspace

__all__ = [
    "END",
    "AgentPlan",
    "BranchPoint",
    "BrokenTool",
    "SandboxCheck",
    "Session",
    "Tool",
    "ToolResult",
    "ToolSource",
    "TrajectoryState",
    "Unplayed",
    "UserTurn",
    "Workspace",
    "answer_message",
    "calls_of",
    "code_digest",
    "described",
    "listed",
    "offers_of",
    "result_messages",
    "why_malformed",
]
