"""What a task file says of an agent: its tools, where they run, how far it may go, who it talks to, and how it answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from assay.config.functions import Function, FunctionRef

BUILT_IN_TOOLS = ("bash", "python")
"""Tools that run in the trajectory's own sandbox."""


class AgentPart(BaseModel):
    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, frozen=True)


class ToolConfig(AgentPart):
    """One entry of `tools`: a name of ours, Python code, or a server of the Model Context Protocol."""

    name: Literal["bash", "python"] | None = None
    function: Function | None = None
    """A function, or a class of which each trajectory has an object of its own: every public method is a tool."""
    mcp: str | list[str] | None = None
    """The command of a server that is started for each trajectory, or the address of one that runs already."""
    env: dict[str, str] = Field(default_factory=dict)
    """Further environment variables of a server that is started."""
    effects: Literal["own", "outside"] = "own"
    """Whether calls change anything outside the trajectory's own sandbox, object or process: those are never repeated."""
    seconds: float = Field(default=60.0, gt=0)
    """The most that one call may take; a tool that takes longer counts as broken."""

    @model_validator(mode="before")
    @classmethod
    def _unfold(cls, data: Any) -> Any:
        if isinstance(data, str) and data not in BUILT_IN_TOOLS:
            raise ValueError(f"there is no tool {data!r}; known: {', '.join(BUILT_IN_TOOLS)}, or !function, or mcp:")
        if isinstance(data, str):
            return {"name": data}
        return {"function": data} if isinstance(data, FunctionRef) or callable(data) else data

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if sum(each is not None for each in (self.name, self.function, self.mcp)) != 1:
            raise ValueError("a tool is one of: bash, python, function: …, mcp: …")
        return self

    @property
    def is_remote(self) -> bool:
        return isinstance(self.mcp, str) and self.mcp.startswith(("http://", "https://"))

    @property
    def acts_outside(self) -> bool:
        """Nobody knows what a server somewhere else does with a call."""
        return self.effects == "outside" or self.is_remote


class WorkspaceConfig(AgentPart):
    """The files and the confinement that `bash` and `python` find."""

    files: dict[str, str] | str | Function = Field(default_factory=dict)
    """Path → text (templates over the doc), a column that holds such a mapping, or a function of the doc."""
    setup: str | None = None
    """A shell script (a template over the doc) that runs before the first step."""
    network: bool = False
    """Whether commands may use the network; the user must allow it too (`--allow_network`)."""
    image: str | None = None
    """A container image; it needs --sandbox docker or podman."""
    seconds: float = Field(default=30.0, gt=0)
    """The most that one command may take."""
    memory: int = Field(default=2 << 30, gt=0)
    disk: int = Field(default=256 << 20, gt=0)
    """In bytes."""


class AgentLimits(AgentPart):
    """Where a trajectory is ended. What is not set has no limit, but for the steps."""

    steps: int = Field(default=20, ge=1)
    """Answers of the model."""
    turn_steps: int | None = Field(default=None, ge=1)
    """Steps between two messages of the user."""
    tokens: int | None = Field(default=None, ge=1)
    """Tokens of all prompts and answers together."""
    seconds: float | None = Field(default=None, gt=0)
    """Time of answers and tools together; stored answers count with the time that they took at first."""
    cost: float | None = Field(default=None, gt=0)
    """What answers cost, in the currency of the model's prices."""


class AgentUser(AgentPart):
    """Who talks to the agent: another model of the run, or a script."""

    template: str | None = None
    """The model's prompt: a template over the doc, and `history`, the messages so far as a list of role and content."""
    turns: list[str] | str | Function | None = None
    """In place of a model: what the user says after the question, one by one, each when the agent calls nothing. Templates over
    the doc, a column that holds a list, or a function of the doc. An entry of a column may be a mapping: what is said (`say`),
    and the names of tools that are offered only from then on (`tools`)."""
    role: str = "user"
    stop: str = "###STOP###"
    """The user ends the conversation by saying it."""
    max_gen_toks: int = Field(default=256, ge=1)

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.template is None) == (self.turns is None):
            raise ValueError("a user is a model (template: …) or a script (turns: …)")
        return self


class AgentConfig(AgentPart):
    """`agent:` of a task file."""

    tools: Annotated[list[ToolConfig], BeforeValidator(lambda given: given if isinstance(given, list) else [given])]
    sandbox: WorkspaceConfig = Field(default_factory=WorkspaceConfig)
    limits: AgentLimits = Field(default_factory=AgentLimits)
    user: AgentUser | None = None
    submit: Literal["tool", "last message"] = "tool"
    """Where the answer is: in a call of the tool `submit`, or in the first message without a call."""
    tool_choice: Literal["auto", "required"] = "auto"
    """Whether the server is told that every answer must call a tool."""
    output: int = Field(default=30_000, ge=100)
    """Characters of a tool's result that the model sees; a longer one loses its middle."""

    @property
    def has_workspace(self) -> bool:
        return any(tool.name is not None for tool in self.tools) or bool(self.sandbox.files or self.sandbox.setup)
