"""The demo's agent: it runs the tests of core/ through a tool server and reports what they printed.

Scripted by default; with OPENAI_API_KEY or OPENAI_BASE_URL, or ANTHROPIC_API_KEY, a real model does the work.
"""

import os
import sys

from torpor import Agent, RapServer
from torpor.models import ScriptedModel, call, say

TOOLS = os.environ.get("DEMO_TOOLS", "http://127.0.0.1:1")
TESTS = os.environ.get("DEMO_TESTS", "tests/core").split()
COMMAND = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", *TESTS]
TASK = (
    "Run this project's tests of core/ with run_command, with exactly this command: "
    f"{COMMAND!r}, with patience 600. Then report in one sentence how many tests passed."
)


def report(request):
    """What a model would say, from the real output of the tool."""
    output = request.results[0].text.strip().splitlines()
    summary = next((line for line in reversed(output) if " passed" in line or " failed" in line), output[-1])
    return say(f"The tests of core/ are done. The run printed: {summary}")


def model():
    """The model that the environment asks for."""
    if os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL"):
        return f"openai:{os.environ.get('OPENAI_MODEL', 'gpt-5-mini')}"
    if os.environ.get("ANTHROPIC_API_KEY"):
        return f"anthropic:{os.environ.get('ANTHROPIC_MODEL', 'claude-haiku-4-5')}"
    first = [say("I run the tests."), call("run_command", command=COMMAND, patience=600)]
    return ScriptedModel([first, report])


tester = Agent(
    "tester",
    model=model(),
    instructions="You run tests and report what they really printed.",
    tools=[RapServer(TOOLS, token=os.environ.get("DEMO_TOKEN"))],
)
