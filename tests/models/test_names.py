import subprocess
import sys

import pytest

import torpor.models
from torpor.core.errors import Refused
from torpor.models import ScriptedModel, resolve, say
from torpor.models.sdk import require

SCRIPT = [say("from a list")]
MODEL = ScriptedModel(["from a model"], name="scripted:mine")


def test_providers() -> None:
    assert resolve("openai:gpt-5-mini").name == "openai:gpt-5-mini"
    assert resolve("openai:Qwen/Qwen3:8b").name == "openai:Qwen/Qwen3:8b"
    assert resolve("anthropic:claude-sonnet-5").name == "anthropic:claude-sonnet-5"


def test_scripts() -> None:
    assert resolve(f"scripted:{__name__}:MODEL") is MODEL
    made = resolve(f"scripted:{__name__}:SCRIPT")
    assert made.name == f"scripted:{__name__}:SCRIPT"


@pytest.mark.parametrize("name", ["", "gpt-5", "openai:", "opanai:gpt-5", ":x"])
def test_no_model_of_that_name(name: str) -> None:
    with pytest.raises(Refused, match="anthropic:NAME, openai:NAME, scripted:NAME"):
        resolve(name)


@pytest.mark.parametrize(
    "name", ["scripted:x", "scripted:no_such_module:x", f"scripted:{__name__}:nothing", "scripted::x"]
)
def test_no_script_of_that_name(name: str) -> None:
    with pytest.raises(Refused, match="script"):
        resolve(name)


def test_a_missing_sdk_is_told_with_the_command() -> None:
    with pytest.raises(Refused, match=r"pip install '\.\[no_such_sdk\]'"):
        require("no_such_sdk")


def test_every_public_name_is_there_and_no_other() -> None:
    assert all(getattr(torpor.models, name) is not None for name in torpor.models.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        _ = torpor.models.nothing


def test_no_sdk_is_imported_before_a_model_is_asked() -> None:
    program = (
        "import sys\n"
        "from torpor.models import Anthropic, OpenAI, resolve\n"
        "resolve('openai:m'), resolve('anthropic:m'), OpenAI('m'), Anthropic('m')\n"
        "print(sorted({'openai', 'anthropic', 'httpx2', 'pydantic'} & set(sys.modules)))\n"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert out.stdout == "[]\n"


def test_the_first_streams_of_a_process_may_start_together() -> None:
    program = (
        "import asyncio\n"
        "from torpor.core.errors import Unavailable\n"
        "from torpor.models import OpenAI\n"
        "from torpor.testing.model_contract import ASKED, Attempt\n"
        "async def ask(model):\n"
        "    try:\n"
        "        async for _ in model.stream(ASKED, Attempt('t', 0)): pass\n"
        "    except Unavailable:\n"
        "        return 'unavailable'\n"
        "async def main():\n"
        "    model = OpenAI('m', base_url='http://127.0.0.1:9')\n"
        "    print(set(await asyncio.gather(*(ask(model) for _ in range(5)))))\n"
        "asyncio.run(main())\n"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert out.stdout == "{'unavailable'}\n"
