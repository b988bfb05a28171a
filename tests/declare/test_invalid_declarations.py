"""What is wrong with a TOML file or a flag is told by where it stands, with what would be right."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from random import Random
from typing import Any

import pytest

from slidestat.declare.forms.files import load_topology
from slidestat.declare.forms.flags import topology_of_flags
from slidestat.declare.forms.tables import topology_of
from slidestat.declare.kinds import KINDS
from slidestat.declare.statistics import Statistic
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError

NEEDED = {"name": "t", "source": "s", "span": "1h", "every": "1m"}
HEAD = 'name = "t"\nsource = "s"\nevery = "1m"\n'
WHOLE = HEAD + 'span = "1h"\n'
COUNT = '[[statistics]]\nkind = "count"\n'
ALERT = '[[alerts]]\nname = "a"\n'
# Each reads the one before it twice.
DOUBLED = [f"'c{i} + c{i} as c{i + 1}'" for i in range(60)]

TOML: list[tuple[str, str, str]] = [
    (HEAD, "span is missing", "give it"),
    (HEAD + "span = 3600", "span is 3600, which is not a duration", '"90s"'),
    (HEAD + "span = 07:32:00", "span is datetime.time", '"90s"'),
    (HEAD + 'span = "1h', "(at line 4, column 11)", "Fix the TOML"),
    (HEAD + "span = ", "(at line 4, column 8)", "Fix the TOML"),
    (WHOLE + "wndows = ['1h']", "wndows is no field of a topology", "Did you mean windows?"),
    (WHOLE + "nothing = 1", "nothing is no field of a topology", "There are name, source"),
    (WHOLE + "windows = '5m'", "windows is '5m', which is not a list", '["1h"]'),
    (WHOLE + "windows = ['2h']", "windows has '2h'", "shorten the window"),
    (WHOLE + "windows = [['1h']]", "windows is ['1h']", '"90s"'),
    (WHOLE + "lateness = '2h'", "lateness is '2h'", "shorten the lateness"),
    (WHOLE + "key_field = 5", "key_field is 5", '"request.bytes"'),
    (WHOLE + "key_field = {a = 'b'}", "key_field is {'a': 'b'}", '"request.bytes"'),
    (WHOLE + "statistics = 'count'", "statistics is 'count'", "[[statistics]]"),
    (WHOLE + "statistics = ['count']", "statistics is ['count']", "[[statistics]]"),
    (WHOLE + "[statistics]\nkind = 'count'", "statistics is {'kind'", "[[statistics]]"),
    (WHOLE + "statistics = []", "statistics has []", "at least one"),
    (WHOLE + COUNT + "[[statistics]]", "statistics[1].kind is missing", "count, rate, sum"),
    (WHOLE + "[[statistics]]\nkind = 5", "statistics[0].kind is 5", "count, rate, sum"),
    (WHOLE + "[[statistics]]\nkind = 'quantiles'", "statistics[0].kind is", "mean quantile?"),
    (WHOLE + "[[statistics]]\nkind = 'p99'", "statistics[0].kind is", "quantiles = [0.99]"),
    (WHOLE + "[[statistics]]\nkind = 'my.py:Mine'", "no statistic of slidestat's own", "in Python"),
    (
        WHOLE + "[[statistics]]\nkind = 'quantile'\nquantiles = [99]",
        "statistics[0].quantiles are 99",
        "Did you mean 0.99?",
    ),
    (
        WHOLE + "[[statistics]]\nkind = 'rank_quantile'\nquantiles = [0.9999996]",
        "the quantile 0.9999996 has more than six decimals",
        "Give 1.0.",
    ),
    (
        WHOLE + "[[statistics]]\nkind = 'norm'\nfield = 'u'\nweight = 0",
        "statistics[0].weight is 0, which is no field's path",
        '"request.bytes"',
    ),
    (
        WHOLE + "[[statistics]]\nkind = 'distinct'\nfield = 'u'\nby = []",
        "statistics[0].by is [], which is no field's path",
        '"request.bytes"',
    ),
    (
        WHOLE + "[[statistics]]\nkind = 'mean'\nfield = []",
        "statistics[0].field is [], which is no field's path",
        '"request.bytes"',
    ),
    (
        WHOLE + "[[statistics]]\nkind = 'norm'\nfield = 'u'\ndelta = 1e-9",
        "statistics[0].delta is 1e-09",
        "1e-06 to 0.5",
    ),
    (
        WHOLE + "[[statistics]]\nkind = 'norm'\nfield = 'u'\nepsilon = 0.1234567",
        "statistics[0].epsilon is 0.1234567, of more than 6 decimals",
        "Give 0.123457.",
    ),
    (
        WHOLE + "[[statistics]]\nkind = 'norm'\nfield = 'u'\np = 1.33333333",
        "statistics[0].p is 1.33333333, of more than 6 decimals",
        "Give 1.333333.",
    ),
    (
        WHOLE + f"[[statistics]]\nkind = 'norm'\nfield = 'u'\nseed = {2**62}",
        f"statistics[0].seed is {2**62}",
        "0 to 2^62 - 1",
    ),
    (
        WHOLE + "[[statistics]]\nkind = 'distinct'\nfield = 'u'\ndelta = 0.0123456789",
        "statistics[0].delta is 0.0123456789, of more than 9 decimals",
        "Give 0.012345679.",
    ),
    (
        WHOLE + f"[[statistics]]\nkind = 'items'\nitems = {list(map(str, range(10_000)))}",
        "statistics[0].items are 10,000.",
        "1 to 100",
    ),
    (
        WHOLE + "[[statistics]]\nkind = 'lean_distinct'\nfield = 'u'\nepsilon = 0.001",
        "statistics[0].epsilon is 0.001",
        "from 0.01 to 0.5",
    ),
    (
        WHOLE + "[[statistics]]\nkind = 'top'\nfield = 'u'\n" + ALERT + "when = 'top > 3'",
        "the alert a reads 'top'",
        "Lists of items have no figure",
    ),
    (WHOLE + COUNT + "epsilon = 2", "statistics[0].epsilon is 2", "from 0.0001 to 1"),
    (WHOLE + COUNT + COUNT + "epsilon = 'x'", "statistics[1].epsilon is 'x'", "from 0.0001"),
    (WHOLE + COUNT + "eps = 0.1", "statistics[0].eps is no parameter of count", "epsilon"),
    (WHOLE + COUNT + "field = 'a'", "statistics[0].field is no parameter", "There are name"),
    (WHOLE + COUNT + "name = 'a b'", "statistics[0].name is 'a b'", "letters"),
    (WHOLE + COUNT + COUNT, "statistics has ['count', 'count']", "each once"),
    (
        WHOLE + "where = 'status >='",
        "where is 'status >=', which is no SQL near '>='",
        "status >= 500",
    ),
    *(
        (WHOLE + f"where = '{text}'", "`is` comes behind a comparison", "(a = b) is true")
        for text in (
            "p = q is true",
            "not p <> (q) is not null",
            "b > 1 and case when a = 1 then p end = q is null",
        )
    ),
    *(
        (WHOLE + f"where = 'p = q {test}'", f"`{test}` comes behind a comparison", "parentheses")
        for test in ("isnull", "notnull", "not null")
    ),
    (WHOLE + "where = 5", "where is 5, which is no text", "status >= 500"),
    (WHOLE + "where = 'count(*) > 1'", "'COUNT(*)' cannot be computed", "There are = <>"),
    (WHOLE + "where = 'a > 1 and lower(a) > b'", "a is a number in one place and a text", "'500'"),
    (WHOLE + "where = 'status + 1'", "where is 'status + 1', a number, not", "a condition"),
    (WHOLE + "where = 'a = b'", "nothing shows whether 'a' is", "Write a + 0 for a number"),
    *(
        (
            WHOLE + f'where = """{where}"""',
            f'"{text}" in double quotes is a field',
            f"= '{text}'; and a field of texts as",
        )
        for where, text in (
            ('method = "GET"', "GET"),
            ("method <> 'PUT' and method = \"GET\" ", "GET"),
            ('lower(path) = "/login"', "/login"),
            ("method in ('PUT', \"GET\")", "GET"),
        )
    ),
    (
        WHOLE + "[[statistics]]\nkind = 'items'",
        "statistics[0].items are missing",
        '["GET", "POST"]',
    ),
    (
        WHOLE + "[[statistics]]\nkind = 'items'\nitems = ['a', 'a']",
        "statistics[0].items are ['a', 'a']",
        "different texts",
    ),
    (
        WHOLE + "[[statistics]]\nkind = 'histogram'\nedges = [3, 1]",
        "statistics[0].edges are [3, 1]",
        "such as [10, 100]",
    ),
    (WHOLE + "alerts = 5", "alerts is 5", "[[alerts]]"),
    (WHOLE + "[[alerts]]\nname = 'a'", "alerts[0].when is missing", "in `change`"),
    (WHOLE + "[[alerts]]\nwhen = 'count > 1'", "alerts[0].name is missing", "give it"),
    (WHOLE + ALERT + "when = 'count >'", "alerts[0].when is 'count >', which is no SQL", "status"),
    (WHOLE + ALERT + "when = 'counts > 1'", "the alert a reads 'counts'", "Did you mean count?"),
    (
        WHOLE + ALERT + "when = 'p95 > 1'",
        "the alert a reads 'p95'",
        "for p95 put 0.95 into",
    ),
    (WHOLE + ALERT + "when = 'p99_9 > 1'", "the alert a reads 'p99_9'", "for p99_9 put 0.999 into"),
    (WHOLE + ALERT + "when = 'median > 1'", "the alert a reads 'median'", "Did you mean p50?"),
    *(
        (WHOLE + ALERT + f"when = 'count > 1'\n{line}", f"alerts[0].{field} {error}", advice)
        for line, field, error, advice in (
            ("labels = ['a']", "labels", "is ['a'], which is no table", '{ team = "shop" }'),
            ("labels = { team = 2 }", "labels", "has team = 2, which", "in quotes"),
            ("labels = { team = ' ' }", "labels", "has team = ' ', which is empty", "in quotes"),
            ("labels = { team = 'a\\u0000' }".replace("'", '"'), "labels", "has team", "quotes"),
            ("labels = { key = 'a' }", "labels", "has 'key', which each alert", "`severity`"),
            ("labels = { a-b = 'a' }", "labels", "has the name 'a-b'", "letters, digits"),
            ("labels = { __a = 'a' }", "labels", "has the name '__a'", "'__' in front"),
            ("annotations = { a = '{{ $value }}' }", "annotations", "has a = '{{", "a label"),
            ("annotations = { figures = 'a' }", "annotations", "has 'figures'", "another name"),
            (f"annotations = {{ a = '{1001 * 'a'}' }}", "annotations", "has a a of 1,001", "1,000"),
            ("runbook = 'wiki'", "runbook", "is 'wiki', which is no address", "https://wiki"),
            ("runbook = 'javascript:alert(1)'", "runbook", "is 'javascript", "https://wiki"),
        )
    ),
    (
        WHOLE + "alert_headers = 'cloudevents'",
        "alert_headers is 'cloudevents', and there",
        "Declare",
    ),
    (WHOLE + "alert_headers = 'knative'", "alert_headers is 'knative'", '"cloudevents", or none'),
    (WHOLE + ALERT + "when = 'p101 > 1'", "the alert a reads 'p101'", "There are count, mean"),
    (
        WHOLE + ALERT + "when = 'p99_p50 > 1'\n" + COUNT + "name = 'p50'",
        "the alert a reads 'p99_p50'",
        "There are p50.",
    ),
    (WHOLE + ALERT + "when = \"count > 'a'\"", "count is a number in one place", "'500'"),
    (WHOLE + ALERT + "when = \"lower(count) = 'a'\"", "count is a number in one", "texts '500'"),
    (WHOLE + ALERT + "when = 'count % 2 = 1'", "count % 2 cannot be evaluated", "comparisons"),
    (WHOLE + ALERT + "when = '(count > 1) = true'", "evaluated over bounds", "comparisons"),
    (WHOLE + ALERT + "when = '1 = 1'", "which reads no field", "status >= 500"),
    (WHOLE + ALERT + "when = ''", "alerts[0].when is ''", "p99 > 500"),
    (WHOLE + ALERT + "when = 5", "alerts[0].when is 5", "p99 > 500"),
    (WHOLE + ALERT + "when = 'count > 1'\nresolve = 5", "alerts[0].resolve is 5", "p99 > 500"),
    (WHOLE + ALERT + "when = 'count > 1'\nfor = 0", "alerts[0].for is 0", "from 1 to"),
    (WHOLE + ALERT + "when = 'count > 1'\nfor = '2x'", "the for of the alert a is '2x'", "5m"),
    (WHOLE + ALERT + "when = 'count > 1'\nfor = true", "alerts[0].for is True", "how long"),
    (WHOLE + ALERT + "when = 'count < 0'", "which no figures make true", "another condition"),
    (WHOLE + ALERT + "when = 'count > 5 and count < 3'", "no figures make true", "another"),
    (
        WHOLE + ALERT + "when = 'count > 1'\nresolve = 'p99 > 2 and p99 < 1'",
        "has resolve =",
        "anoth",
    ),
    (
        WHOLE + ALERT + "when = 'count = 0'",
        "no key has such a window before it is forgotten",
        "longer span",
    ),
    (
        WHOLE + "windows = ['10m']\n" + ALERT + "when = 'count < 1'\nfor = '50m'",
        "up to 50 ticks before it is forgotten, and for = '50m' takes 51",
        "Shorten",
    ),
    (WHOLE + ALERT + "when = 'count > 1'\nfro = 1", "alerts[0].fro is no field", "mean for?"),
    (WHOLE + ALERT + "when = 'count > 1'\nwindow = '5m'", "window of the alert a is", "Give one"),
    (WHOLE + ALERT + "when = 'count > 1'\nwindow = 5", "alerts[0].window is 5", "5m"),
    (WHOLE + ALERT + "when = 'count > 1'\ncertain = 1", "alerts[0].certain is 1", "true or"),
    (
        WHOLE + "windows = ['1m', '5m']\n" + ALERT + "when = 'count > 1'",
        "the window of the alert a is missing, and there are 2.",
        "Say which of the topology's windows the figures are of, or name each with its window:"
        " count_1m.",
    ),
    (
        WHOLE + "windows = ['1m', '5m']\n" + ALERT + "when = 'count_1m > 1 and count > 5'",
        "the window of the alert a is missing",
        "Say which",
    ),
    (
        WHOLE + "windows = ['1m', '5m']\n" + ALERT + "when = 'count_2m > 1'",
        "the alert a reads 'count_2m', which is no figure",
        "Did you mean count_",
    ),
    (
        WHOLE + "windows = ['1m', '5m']\n" + ALERT + "when = 'count_1m > 1'\nwindow = '5m'",
        "the window of the alert a is '5m', and each figure that it reads is of another one",
        "Leave the window out",
    ),
    (
        WHOLE + "windows = ['1m', '5m']\n" + ALERT + "when = 'count_5m > 5 and count_5m < 3'",
        "which no figures make true",
        "another condition",
    ),
    (
        WHOLE + "windows = ['1m', '1h']\n" + ALERT + "when = 'count_1m = 0 and count_1h = 0'",
        "it would never fire",
        "a longer span",
    ),
    (
        WHOLE
        + "windows = ['1m', '5m']\n"
        + ALERT
        + "when = 'count_1m = 0 and count_5m > 0'\nfor = 5",
        "a key has that at up to 4 ticks",
        "Shorten",
    ),
    (WHOLE + (ALERT + "when = 'count > 1'\n") * 2, "alerts has ['a', 'a']", "its own name"),
    (
        WHOLE + "publish = ['k']\n" + ALERT + "when = 'count > 1'",
        "alerts are given, and publish is ['k']",
        "does not publish",
    ),
    (
        WHOLE
        + COUNT
        + "name = 'p99'\n[[statistics]]\nkind = 'quantile'\n"
        + ALERT
        + "when = 'p99 > 1'",
        "several statistics have a figure of that name",
        "another name",
    ),
    (WHOLE + "derived = 'count + 1 as more'", "derived is 'count + 1", "Write a list"),
    (WHOLE + "derived = [5]", "derived has 5, which is no text", "as error_rate"),
    (WHOLE + "derived = ['count + 1']", "derived has 'count + 1'", "name: errors_5m / count_5m as"),
    (WHOLE + "derived = ['1 + 1 as two']", "which reads no figure", "as error_rate"),
    (WHOLE + "derived = ['counts + 1 as c']", "reads 'counts'", "Did you mean count"),
    (WHOLE + "derived = ['count + 1 as count']", "'count', the name of another", "of its own"),
    (WHOLE + "derived = ['p99 / 2 as a', 'p50 / 2 as a']", "'a', the name of another", "own"),
    (WHOLE + "derived = ['b / 2 as a', 'p50 / 2 as b']", "none that is derived before", "There"),
    (WHOLE + "derived = ['count + 1 as \"a-b\"']", "the name 'a-b'", "letters"),
    (
        WHOLE + f"derived = ['count as c0', {', '.join(DOUBLED)}]",
        "'c7 + c7 as c8', of 255 operators",
        "at most 200",
    ),
    (
        WHOLE + f"derived = ['{'+'.join(['(count' + 19 * '+count' + ')'] * 20)} as many']",
        "of 399 operators",
        "at most 200",
    ),
    (WHOLE + "derived = ['count > 1 as many']", "a truth value, not a number", "Numbers"),
    (WHOLE + "derived = ['count % 2 as odd']", "count % 2 cannot be evaluated", "coalesce"),
    (WHOLE + "derived = ['nullif(count, 0) as n']", "cannot be computed", "coalesce"),
    (
        WHOLE + "derived = [\"count - ago(count, '5m') as n\"]",
        "n in derived reads ago(count, '5m'), which is not kept: the span is '1h'",
        "declare a longer one",
    ),
    (WHOLE + "derived = ['count + (p99 > 1) as n']", "in one place", "Numbers are"),
    (
        WHOLE + "publish = ['k']\nderived = ['count + 1 as n']",
        "derived is given, and publish is ['k']",
        "Leave it out",
    ),
    (
        WHOLE + "windows = ['1m', '5m']\nderived = ['count + 1 as n']",
        "reads 'count', which is no figure with its window",
        "Did you mean count_",
    ),
    (
        WHOLE
        + "derived = ['few / (count * 100) as percent']\n"
        + COUNT
        + "[[statistics]]\nkind = 'count'\nname = 'few'\nwhere = 'value < 3'\n"
        + ALERT
        + "when = 'percent > 5'",
        "which no figures make true",
        "another condition",
    ),
    (
        WHOLE
        + "windows = ['5m', '1h']\nhaving = 'count_5m > 3'\n"
        + COUNT
        + "[[statistics]]\nkind = 'count'\nname = 'count_5m'\nwhere = 'a > 1'",
        "several statistics have a figure of that name",
        "another name",
    ),
    (WHOLE + "where = '1 = 1'", "which reads no field", "status >= 500"),
    (WHOLE + "where = 'a > 1e'", "'1e' cannot be computed", "There are = <>"),
    (WHOLE + "where = \"a like '5!!!' escape '!'\"", "escapes nothing", "twice"),
    (WHOLE + "where = 'select = 1'", "no SQL", 'in double quotes: "order"'),
    (WHOLE + "where = 'a = 1; b = 2'", "not one expression", "status >= 500"),
    (WHOLE + "where = 'a like b'", "the pattern of like", "'/api/%'"),
    (WHOLE + "where = 'substring(a, 0) = a'", "other places", "from 1 on"),
    (WHOLE + "where = 'value.a > 1'\n[[statistics]]\nkind = 'sum'", "'value' is read", "Correct"),
    (
        WHOLE + "where = 'not value'\n[[statistics]]\nkind = 'sum'",
        "expression reads 'value'",
        "number",
    ),
    (WHOLE + "where = \"lower(time) = 'a'\"", "expression reads 'time', the time", "Leave it out"),
    (WHOLE + ALERT + "when = '" + " + ".join(["count"] * 400) + " > 3'", "too deep", "(a + b)"),
    (WHOLE + "where = '" + "(" * 3_000 + "a" + ")" * 3_000 + "'", "nested too deep", "fewer"),
    (WHOLE + "where = '" + "a or " * 3_000 + "a'", "where is", "at most 10,000 characters"),
    (WHOLE + "computed = 'a + 1 as b'", "computed is 'a + 1 as b', which is not a list", '["lat'),
    (WHOLE + "computed = ['a + as b']", "computed has 'a + as b', which is no SQL", "as latency_s"),
    (
        WHOLE + "value_field = 'a+b'",
        "value_field is 'a+b', which is an expression",
        '["a+b as NAME"]',
    ),
    (WHOLE + "tombstones = 'keep'", "tombstones is 'keep'", '"pass-over" or "dead-letter"'),
    (WHOLE + COUNT + "where = 'a >'", "statistics[0].where is 'a >'", "status >= 500"),
    (
        WHOLE + COUNT + "where = 'a > 1'",
        "statistics[0].where is 'a > 1', and it has no name",
        "errors",
    ),
    (WHOLE + "[[statistics]]\nkind = 'quantile'\nquantiles = 0.5", "[0].quantiles are 0.5", "list"),
]


@pytest.mark.parametrize(("content", "message", "advice"), TOML, ids=[m for _, m, _ in TOML])
def test_invalid_toml(tmp_path: Path, content: str, message: str, advice: str) -> None:
    """Each error says the file and the field, or the line; the advice says what would be right."""
    file = tmp_path / "orders.toml"
    file.write_text(content + "\n")
    with pytest.raises(SlidestatError) as raised:
        load_topology(str(file))
    assert raised.value.message.startswith(f"{file}: ")
    assert message in raised.value.message
    assert advice in raised.value.advice


def test_files_that_are_no_toml(tmp_path: Path) -> None:
    """Garbage, nesting without end and folders are told in a sentence."""
    file = tmp_path / "a.toml"
    for content, message in (
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        (b"a = " + b"[" * 100_000, "nested too deep"),
        (b"\x00", "at line 1"),
        (b"", "name is missing"),
    ):
        file.write_bytes(content)
        with pytest.raises(SlidestatError, match=message):
            load_topology(str(file))
    file.unlink()
    with pytest.raises(SlidestatError, match="There is no file"):
        load_topology(str(file))
    file.mkdir()
    with pytest.raises(SlidestatError, match="There is no file"):
        load_topology(str(file))


@pytest.mark.parametrize(
    "name", ["", ".", "..", "/", "nowhere/", "requests.tml", "a\0", "x" * 5_000]
)
def test_what_is_the_name_of_no_file(name: str) -> None:
    """As of a variable that is not set, a folder, and a whole declaration."""
    for given in (name, f"{name}.toml"):
        with pytest.raises(SlidestatError, match=r"There is no (topology|file)"):
            load_topology(given)


FLAGS: list[tuple[dict[str, Any], str, str]] = [
    ({"span": "1w"}, "--span is '1w'", '"90s"'),
    ({"windows": ["1m", "2h"]}, "--window has '2h'", "shorten the window"),
    ({"key_field": "a..b"}, "--key is 'a..b'", '"request.bytes"'),
    ({"key_field": "a\ud800"}, "--key has 'a\\ud800', which is no Unicode text", "in UTF-8"),
    ({"where": "a = '\udcff'"}, "--where has \"a = '\\udcff'\", which is no Unicode", "in UTF-8"),
    ({"statistics": ["items:items=\udcff"]}, "items has '\\udcff', which is no", "in UTF-8"),
    ({"key_field": "a", "time_field": "a"}, "--key, --time and --value are", "three different"),
    ({"statistics": [""]}, "--statistic '': kind is ''", "count, rate"),
    ({"statistics": ["count", "summ"]}, "--statistic 'summ': kind is", "Did you mean sum?"),
    ({"statistics": ["count", "count"]}, "--statistic has ['count', 'count']", "each once"),
    ({"statistics": ["sum:a:b"]}, "'b' is no NAME=VALUE", "KIND[:FIELD][:NAME=VALUE]"),
    ({"statistics": ["sum:"]}, "'' is no NAME=VALUE", "KIND[:FIELD]"),
    ({"statistics": ["sum:a:field=b"]}, "field is given twice", "KIND[:FIELD]"),
    ({"statistics": ["sum:a:epsilon="]}, "epsilon is ''", "from 0.0001"),
    ({"statistics": ["sum:decimals=1.5"]}, "decimals is 1.5", "whole number"),
    ({"statistics": ["sum:decimals=" + "9" * 5_000]}, "decimals is inf", "whole number"),
    ({"statistics": ["sum:epsilon=nan"]}, "epsilon is nan", "from 0.0001"),
    ({"statistics": ["count:epsilon=true"]}, "epsilon is True", "from 0.0001"),
    ({"statistics": ["quantile:quantiles=0.5,,1"]}, "quantiles are 0.5, '', 1", "list"),
    ({"statistics": ["quantile:p=0.5"]}, "p is no parameter of quantile", "quantiles"),
    ({"where": "a >"}, "--where is 'a >'", "status >= 500"),
    ({"statistics": ["count:name=x:where=a:b"]}, "'b' is no NAME=VALUE", "KIND[:FIELD]"),
    ({"statistics": ["count:name=x:where=a >"]}, "where is 'a >'", "status >= 500"),
    ({"statistics": ["count:a"]}, "field is no parameter of count", "name, where, epsilon"),
    ({"expected": "k," + 257 * "x", "alerts": ["a:count = 0"]}, "at most 256 char", "as records"),
]


@pytest.mark.parametrize(("changes", "message", "advice"), FLAGS, ids=[m for _, m, _ in FLAGS])
def test_invalid_flags(changes: dict[str, Any], message: str, advice: str) -> None:
    """Each error says the flag; the advice says what would be right."""
    with pytest.raises(SlidestatError) as raised:
        topology_of_flags({**NEEDED, **changes})
    assert raised.value.message.startswith("--")
    assert message in raised.value.message
    assert advice in raised.value.advice


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_an_error_of_any_parameter_is_placed(kind: type[Statistic]) -> None:
    """Whatever the statistic, an error in a parameter names the place of the parameter."""
    for field in fields(kind):
        table = {"kind": kind.kind, field.name: {"no": "value"}}
        with pytest.raises(SlidestatError) as raised:
            topology_of({**NEEDED, "statistics": [{"kind": "count"}, table]})
        assert raised.value.message.startswith(f"statistics[1].{field.name} ")


def _any_value(random: Random, depth: int = 0) -> object:
    plain: list[Callable[[], object]] = [
        lambda: random.choice([0, -1, 1, 2**70, True, False]),
        lambda: random.choice([0.0, -0.5, 0.5, 1e308, float("nan"), float("inf")]),
        lambda: random.choice(["", "a", "a.b", "1h", "5m", "10 events", "\x00", "é" * 300]),
        lambda: random.choice(list(KINDS)),
    ]
    nested: list[Callable[[], object]] = [
        lambda: [_any_value(random, depth + 1) for _ in range(random.randint(0, 3))],
        lambda: {random.choice(_NAMES): _any_value(random, depth + 1)},
    ]
    return random.choice(plain if depth > 2 else plain + nested)()


_NAMES = ["kind", "x", *{f.name for kind in (Topology, *KINDS.values()) for f in fields(kind)}]


def test_no_table_ends_in_anything_but_advice() -> None:
    """Whatever stands in a table, it is a topology or a SlidestatError; nothing else is raised."""
    random = Random(0)
    refused: list[SlidestatError] = []
    for _ in range(2_000):
        table: dict[str, object] = dict(NEEDED)
        for _ in range(random.randint(0, 2)):
            table[random.choice(_NAMES)] = _any_value(random)
        if random.random() < 0.7:
            kind = random.choice(list(KINDS))
            names = [field.name for field in fields(KINDS[kind])]
            parameters = {random.choice(names): _any_value(random) for _ in range(2)}
            table["statistics"] = [{"kind": kind, **parameters}]
        try:
            topology_of(table)
        except SlidestatError as error:
            refused.append(error)
    assert 1_000 < len(refused) < 2_000
    assert all(error.message and error.advice for error in refused)


def test_no_flag_ends_in_anything_but_advice() -> None:
    """Whatever is written for a statistic, it is one or a SlidestatError that shows the flag."""
    random = Random(1)
    pieces = [*KINDS, *_NAMES, *":=,.-+ ", "0.5", "1", "nan", "true", "1e999", "9" * 5_000, "\x00é"]
    taken = 0
    for _ in range(2_000):
        text = "".join(random.choices(pieces, k=random.randint(0, 5)))
        if random.random() < 0.7:
            text = f"{random.choice(list(KINDS))}:{text}"
        try:
            topology_of_flags({**NEEDED, "statistics": [text]})
            taken += 1
        except SlidestatError as error:
            message = error.message
            if not message.startswith(("--", "the field ", "a statistic ", "rate is ")):
                pytest.fail(f"{text!r}: {message}")
    assert 40 < taken < 1_800


def test_no_figure_is_of_a_quantile_below_zero() -> None:
    """-0.0 is 0."""
    (series,) = KINDS["rank_quantile"](quantiles=[-0.0]).series()
    assert str(series.quantile) == "0.0"


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("x:change=", "the condition begins with change, which is no figure, but a field of"),
        ("x:when=count > 1", 'Write the condition alone: when = "p99 > 500"'),
        ("x:window=5m", r'as a flag "x:p99 > 500:window=\.\.\."'),
        ("x::change=", "change names nothing. Name a figure"),
        ("x::change=mean(value)", "neither a figure nor one divided by another"),
        ("x: Change = mean_value", "reads 'Change', which is no figure, but a field of an alert"),
        ("x:change=mean_value", r'as a flag "x::change=\.\.\."'),
    ],
)
def test_a_field_of_an_alert_in_place_of_its_condition(flag: str, said: str) -> None:
    flags = {"name": "t", "source": "s", "span": "5m", "every": "1m", "value_field": "value"}
    with pytest.raises(SlidestatError, match=said):
        topology_of_flags(flags | {"alerts": [flag], "statistics": ["count", "mean"]})
