"""Every mistake in a sweep file is told with line, key, what was found, what is allowed, and how to mend it."""

import pytest

from nightsweep.errors import InvalidPlan
from nightsweep.plan.sweepfile import load
from tests.unit.plan.builders import a_file, problems_of
from tests.unit.plan.mistakes import KINDS, Kind

SECRET = "hf_AbCdEfGhIjKlMnOpQrStUvWx"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.what)
def test_a_mistake_names_line_key_what_was_found_and_the_remedy(kind: Kind) -> None:
    problems = problems_of(a_file(*kind.changes))

    assert len(problems) == 1, problems
    where = f"sweep.yaml:{kind.line}: {kind.key}: found " if kind.key else f"sweep.yaml:{kind.line}: found "
    assert problems[0].startswith(where + kind.found), problems[0]
    assert "; allowed: " in problems[0]
    for said in kind.says:
        assert said in problems[0], problems[0]


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file() -> None:
    problems = problems_of(
        a_file(
            ("kind: vllm", "kind: tgi"),
            ("boot_timeout: 20m", "boot_timeout: soon"),
            ("[4, 5]", "[four, -1]"),
            ("[0.7, 1.0]", "[3, hot]"),
            ("repeats: 3", "repeats: 0"),
            ('"07:00"', "dawn"),
        )
    )

    assert [int(problem.split(":")[1]) for problem in problems] == [3, 9, 15, 15, 18, 18, 20, 21]


def test_mistakes_between_sections_are_told_beside_those_inside_them() -> None:
    problems = problems_of(a_file(("window: 40s", "window: never"), ("name: plain", "name: '{depth}'")))

    assert [problem.split(": ")[1] for problem in problems] == ["configs[0].name", "probe.window"]


def test_a_mistake_in_a_grid_does_not_make_the_names_wrong_as_well() -> None:
    assert len(problems_of(a_file(("[4, 5]", "[4, four]")))) == 1


def test_sglangs_own_endpoint_is_refused_for_another_engine() -> None:
    (problem,) = problems_of(a_file(("repeats: 3", "repeats: 3\n  api: generate")))

    assert "probe.api: found generate" in problem
    assert "Write `api: completions`" in problem


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing but a comment\n"])
def test_an_empty_file_says_how_to_get_one(text: str) -> None:
    (problem,) = problems_of(text)

    assert problem.startswith("sweep.yaml:1: found an empty file")
    assert "nightsweep new --from-container" in problem


@pytest.mark.parametrize(
    ("text", "found"), [("- a\n- b\n", "a list"), ("just words\n", '"just words"'), ("42\n", "42")]
)
def test_a_file_that_is_no_mapping_says_which_keys_there_are(text: str, found: str) -> None:
    (problem,) = problems_of(text)

    assert problem.startswith(f"sweep.yaml:1: found {found}; allowed: a mapping with the keys name, production, engine")


def test_a_file_with_nothing_in_it_asks_for_each_required_part() -> None:
    keys = [problem.split(": ")[1] for problem in problems_of("box: spark\n")]

    assert sorted(keys) == ["configs", "engine", "name", "probe", "probe.concurrency", "probe.temperature"]


def test_two_documents_in_one_file_are_refused() -> None:
    (problem,) = problems_of(a_file() + "---\nname: second\n")

    assert "a syntax error" in problem


@pytest.mark.parametrize("tag", ["!env", "!!python/name:os.system"])
def test_a_tag_is_refused_and_not_followed(tag: str) -> None:
    (problem,) = problems_of(a_file(("name: depth", f"name: {tag} HOME")))

    assert problem.startswith("sweep.yaml:1: name: found the tag")


@pytest.mark.parametrize("number", [".nan", ".inf", "-.inf", "1e999"])
def test_a_number_that_is_not_finite_is_refused(number: str) -> None:
    (problem,) = problems_of(a_file(("{max-model-len: 8192}", f"{{gpu-memory-utilization: {number}}}")))

    assert problem.startswith(f"sweep.yaml:7: engine.args.gpu-memory-utilization: found {number}; allowed: numbers")


@pytest.mark.parametrize(
    "place",
    [
        "name: depth",
        "kind: vllm",
        "model: org/target",
        "boot_timeout: 20m",
        "concurrency: [1, 4]",
        "temperature: [0.7, 1.0]",
        "window: 40s",
        "repeats: 3",
        "name: plain",
        "timezone: Europe/Amsterdam",
    ],
)
@pytest.mark.parametrize("value", [".nan", "[.nan, .inf]"])
def test_what_is_no_number_is_told_once_and_not_as_a_missing_value_too(place: str, value: str) -> None:
    key = place.partition(":")[0]
    problems = problems_of(a_file((place, f"{key}: {value}")))

    assert [problem for problem in problems if "nothing" in problem] == []
    assert sum("numbers that are finite" in problem for problem in problems) == value.count(".")
    if value == ".nan":
        assert len(problems) == 1, problems


def test_aliases_that_grow_without_bound_are_refused_quickly() -> None:
    laughs = "x-0: &a0 [l, l, l, l, l, l, l, l, l, l]\n" + "".join(
        f"x-{each}: &a{each} [{', '.join([f'*a{each - 1}'] * 10)}]\n" for each in range(1, 9)
    )

    assert any("grow without bound" in problem for problem in problems_of(laughs + a_file()))


def test_an_alias_inside_itself_is_refused() -> None:
    assert any("an alias inside itself" in one for one in problems_of("x-loop: &loop [*loop]\n" + a_file()))


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (("{from_env: HF_TOKEN}", SECRET), "engine.env.HF_TOKEN"),
        (("{HF_TOKEN: {from_env: HF_TOKEN}}", f"{{HARMLESS: {SECRET}}}"), "engine.env.HARMLESS"),
        (("{from_env: HF_TOKEN}", f"{{from_env: {SECRET}}}"), "engine.env.HF_TOKEN"),
        (("{HF_TOKEN: {from_env: HF_TOKEN}}", "{DB_PASSWORD: hunter2}"), "engine.env.DB_PASSWORD"),
        (("{HF_TOKEN: {from_env: HF_TOKEN}}", "{WANDB_API_KEY: hunter2}"), "engine.env.WANDB_API_KEY"),
        (("{HF_TOKEN: {from_env: HF_TOKEN}}", "{MY_SECRET: hunter2}"), "engine.env.MY_SECRET"),
        (("{max-model-len: 8192}", "{api-key: hunter2}"), "engine.args.api-key"),
        (("{max-model-len: 8192}", "{api_key: hunter2}"), "engine.args.api_key"),
        (("repeats: 3", "repeats: 3\n  api_key: hunter2"), "probe.api_key"),
        (("  boot_timeout: 20m", "  command: vllm serve --api-key hunter2"), "engine.command"),
        (("  boot_timeout: 20m", "  command: [vllm, serve, --api-key=hunter2]"), "engine.command"),
        (("  boot_timeout: 20m", "  command: vllm serve --api-key 'hunter2"), "engine.command"),
        (("repeats: 3", "repeats: 3\n  through: https://me:hunter2@gateway.lan/v1"), "probe.through"),
        (("repeats: 3", "repeats: 3\n  through: me:hunter2@gateway.lan"), "probe.through"),
        (("  args: {max-model-len: 8192}", "  args: [--api-key, hunter2]"), "engine.args"),
        (("  boot_timeout: 20m", "  api_key: hunter2"), "engine.api_key"),
        (("  env: {HF_TOKEN: {from_env: HF_TOKEN}}", "  env: {not-a-name: hunter2}"), "engine.env.not-a-name"),
        (("    grid:", "    env: {A_TOKEN: hunter2}\n    grid:"), "configs[1].env.A_TOKEN"),
        (("    grid:", "    grid:\n      env.A_TOKEN: [hunter2]"), "configs[1].grid.env.A_TOKEN[0]"),
    ],
)
def test_a_secret_in_plain_sight_is_refused_and_never_shown(change: tuple[str, str], key: str) -> None:
    with pytest.raises(InvalidPlan) as caught:
        load(a_file(change), source="sweep.yaml")

    told = str(caught.value) + repr(caught.value.facts)
    assert f": {key}: found " in told
    assert SECRET not in told
    assert "hunter2" not in told


def test_a_secret_in_plain_sight_says_to_use_from_env() -> None:
    (problem,) = problems_of(a_file(("{from_env: HF_TOKEN}", SECRET)))

    assert problem == (
        "sweep.yaml:8: engine.env.HF_TOKEN: found a secret in plain sight (not shown); "
        "allowed: {from_env: NAME}, so that the secret is used and never stored. "
        "Write `HF_TOKEN: {from_env: HF_TOKEN}` and set the variable for the service."
    )


def test_sglang_is_told_its_own_word_for_a_method() -> None:
    text = a_file(("kind: vllm", "kind: sglang"))

    (problem,) = problems_of(text)

    assert "SGLang's word for `method` is `algorithm`" in problem


def test_a_secret_on_sglangs_command_line_is_refused_because_command_lines_are_stored() -> None:
    text = a_file(
        ("kind: vllm", "kind: sglang"),
        ("method: dflash", "algorithm: DFLASH"),
        ("{max-model-len: 8192}", "{api-key: {from_env: KEY}}"),
    )

    (problem,) = problems_of(text)

    assert problem.startswith("sweep.yaml:7: engine.args.api-key: found a secret on the command line")
