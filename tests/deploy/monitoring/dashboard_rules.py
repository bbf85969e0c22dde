"""What every dashboard keeps to. Each rule takes a dashboard and yields what is wrong with it."""

import re

from artefacts import panels

COLUMNS = 24
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
UNITS = {"short", "s", "bytes", "Bps", "percentunit", "reqps", "ops", "wps"}
COUNTER = r"\b(?:lodgekv|process)_\w+?_(?:total|count|sum|bucket)\b"


def expressions(dashboard):
    for panel in panels(dashboard):
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def has_its_variables(dashboard):
    first, *others = dashboard["templating"]["list"]
    if (first["type"], first["name"], first["query"]) != ("datasource", "datasource", "prometheus"):
        yield "the first variable is not the data source"
    if [variable["name"] for variable in others] != ["job", "instance"]:
        yield "the other variables are not job and instance"
    for variable in others:
        if variable["datasource"] != DATASOURCE:
            yield f"variable {variable['name']} does not ask the chosen data source"


def asks_the_chosen_data_source(dashboard):
    for panel in panels(dashboard):
        for asked in [panel, *panel["targets"]]:
            if asked["datasource"] != DATASOURCE:
                yield f"{panel['title']}: another data source than ${{datasource}}"


def chooses_servers(dashboard):
    for title, expression in expressions(dashboard):
        if not set(re.findall(r"\$\w+", expression)) >= {"$job", "$instance"}:
            yield f"{title}: asks all servers, not the chosen ones: {expression}"
        bare = re.findall(r"\b(?:lodgekv|process)_\w+(?![\w{])", expression)
        if bare:
            yield f"{title}: {bare[0]} of all servers, not the chosen ones"


def stands_in_rows(dashboard):
    kinds = [panel["type"] for panel in dashboard["panels"]]
    if kinds[0] != "row" or kinds.count("row") < 2:
        yield "its panels do not stand in rows"
    if any(pair == ("row", "row") for pair in zip(kinds, [*kinds[1:], "row"])):
        yield "a row without panels"


def says_what_is_seen(dashboard):
    titles = [panel["title"] for panel in panels(dashboard)]
    for panel in panels(dashboard):
        title = panel["title"]
        if not title or titles.count(title) > 1:
            yield f"{title!r}: no title, or one that occurs twice"
        if len(panel["description"]) < 15 or not panel["description"].endswith("."):
            yield f"{title}: no description"
        defaults = panel["fieldConfig"]["defaults"]
        if defaults.get("unit") not in UNITS:
            yield f"{title}: unit {defaults.get('unit')}"
        if not defaults["thresholds"]["steps"] or (
                defaults["thresholds"]["steps"][0]["value"] is not None):
            yield f"{title}: thresholds without a base"
        if defaults["unit"] == "percentunit" and panel["type"] == "gauge" and (
                len(defaults["thresholds"]["steps"]) < 3):
            yield f"{title}: a gauge without thresholds"


def lays_panels_side_by_side(dashboard):
    taken = set()
    ids = [panel["id"] for panel in dashboard["panels"]]
    if len(set(ids)) != len(ids):
        yield "two panels with one id"
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        if place["x"] + place["w"] > COLUMNS:
            yield f"{panel['title']}: beyond column {COLUMNS}"
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}
        if cells & taken:
            yield f"{panel['title']}: on top of another panel"
        taken |= cells


def counters_stand_under_a_rate(dashboard):
    under = re.compile(rf"\b(?:rate\({COUNTER}\{{[^}}]*\}}\[\$__rate_interval\]\)"
                       rf"|increase\({COUNTER}\{{[^}}]*\}}\[\$__range\]\))")
    for title, expression in expressions(dashboard):
        if re.search(COUNTER, under.sub("", expression)):
            yield f"{title}: a counter without rate(...[$__rate_interval]): {expression}"


RULES = (has_its_variables, asks_the_chosen_data_source, chooses_servers, stands_in_rows,
         says_what_is_seen, lays_panels_side_by_side, counters_stand_under_a_rate)
