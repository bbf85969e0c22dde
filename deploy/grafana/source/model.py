"""Dashboards in few words: what differs between panels is said here once per panel, what they share
once for all.

In an expression `@` stands for the labels that choose the servers.
"""

import dataclasses

SERVERS = 'job=~"$job", instance=~"$instance"'
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24
GREEN, YELLOW, RED = "green", "yellow", "red"


def steps(warn=None, bad=None, *, below=False):
    """Thresholds: from `warn` on it is yellow, from `bad` on red; not yellow where they are one.

    below: green from `warn` on, yellow from `bad` on, red under that.
    """
    if warn is None:
        return [{"color": GREEN, "value": None}]
    colors = [(RED, None), (YELLOW, bad), (GREEN, warn)] if below else [
        (GREEN, None), (YELLOW, warn), (RED, bad)]
    if warn == bad:
        del colors[1]
    return [{"color": color, "value": value} for color, value in colors]


@dataclasses.dataclass
class Panel:
    kind: str
    title: str
    description: str
    unit: str
    # (expression, legend), one for each query.
    queries: list
    thresholds: list = dataclasses.field(default_factory=steps)
    width: int = 8
    height: int = 8
    maximum: float | None = None
    stacked: bool = False
    instant: bool = False
    # Numbers that have names, such as 1: ("on", "green").
    names: dict = dataclasses.field(default_factory=dict)
    options: dict = dataclasses.field(default_factory=dict)

    def to_json(self, number, x, y):
        return {
            "id": number,
            "type": self.kind,
            "transformations": self.transformations(),
            "title": self.title,
            "description": self.description,
            "datasource": DATASOURCE,
            "gridPos": {"h": self.height, "w": self.width, "x": x, "y": y},
            "targets": [self.target(place, *query) for place, query in enumerate(self.queries)],
            "fieldConfig": {"defaults": self.defaults(), "overrides": []},
            "options": self.options,
        }

    def transformations(self):
        """A table shows labels alone."""
        if self.kind != "table":
            return []
        hidden = {name: True for name in ("Time", "Value", "__name__", "job")}
        return [{"id": "organize", "options": {"excludeByName": hidden}}]

    def target(self, place, expression, legend):
        target = {
            "refId": chr(ord("A") + place),
            "datasource": DATASOURCE,
            "editorMode": "code",
            "expr": expression.replace("@", SERVERS),
            "legendFormat": legend,
            "instant": self.instant,
            "range": not self.instant,
        }
        if self.kind == "heatmap":
            target["format"] = "heatmap"
        if self.kind == "table":
            target["format"] = "table"
        return target

    def defaults(self):
        defaults = {
            "unit": self.unit,
            "color": {"mode": "palette-classic" if self.kind == "timeseries" else "thresholds"},
            "thresholds": {"mode": "absolute", "steps": self.thresholds},
            "mappings": [],
        }
        if self.unit != "dateTimeFromNow":
            defaults["min"] = 0
        if self.maximum is not None:
            defaults["max"] = self.maximum
        if self.names:
            options = {str(value): {"text": text, "color": color, "index": place}
                       for place, (value, (text, color)) in enumerate(self.names.items())}
            defaults["mappings"] = [{"type": "value", "options": options}]
        if self.kind == "timeseries":
            defaults["custom"] = {
                "drawStyle": "line", "lineWidth": 1, "fillOpacity": 30 if self.stacked else 8,
                "showPoints": "never", "spanNulls": False,
                "stacking": {"mode": "normal" if self.stacked else "none", "group": "A"},
                "thresholdsStyle": {"mode": "line" if len(self.thresholds) > 1 else "off"},
            }
        return defaults


def timeseries(title, description, unit, *queries, **more):
    options = {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
               "tooltip": {"mode": "multi", "sort": "desc"}}
    return Panel("timeseries", title, description, unit, list(queries), options=options, **more)


def stat(title, description, unit, *queries, **more):
    options = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
               "colorMode": "value", "graphMode": "area", "textMode": "auto",
               "justifyMode": "auto", "orientation": "auto"}
    more = {"width": 4, "height": 4} | more
    return Panel("stat", title, description, unit, list(queries), options=options, **more)


def gauge(title, description, unit, *queries, **more):
    options = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
               "showThresholdLabels": False, "showThresholdMarkers": True}
    more = {"width": 4, "height": 4} | more
    return Panel("gauge", title, description, unit, list(queries), options=options, **more)


def heatmap(title, description, unit, *queries, **more):
    options = {"calculate": False, "yAxis": {"unit": unit}, "cellGap": 1,
               "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
               "tooltip": {"show": True, "yHistogram": False}, "legend": {"show": True}}
    return Panel("heatmap", title, description, unit, list(queries), options=options, **more)


def table(title, description, unit, *queries, **more):
    return Panel("table", title, description, unit, list(queries), instant=True,
                 options={"showHeader": True}, **more)


def state_timeline(title, description, unit, *queries, **more):
    options = {"mergeValues": True, "showValue": "auto", "rowHeight": 0.8,
               "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}}
    return Panel("state-timeline", title, description, unit, list(queries), options=options, **more)


@dataclasses.dataclass
class Dashboard:
    uid: str
    title: str
    description: str
    # (title of a row, its panels)
    rows: list

    def to_json(self):
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": ["lodgekv"],
            "schemaVersion": 38,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "timezone": "browser",
            "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"},
            "annotations": {"list": [restarts()]},
            "links": [{"type": "dashboards", "title": "LodgeKV", "tags": ["lodgekv"],
                       "asDropdown": True, "includeVars": True, "keepTime": True}],
            "templating": {"list": variables()},
            "panels": list(self.panels()),
        }

    def panels(self):
        number, y = 1, 0
        for title, panels in self.rows:
            yield {"id": number, "type": "row", "title": title, "collapsed": False, "panels": [],
                   "gridPos": {"h": 1, "w": COLUMNS, "x": 0, "y": y}}
            number, x, y, height = number + 1, 0, y + 1, 0
            for panel in panels:
                if x + panel.width > COLUMNS:
                    x, y, height = 0, y + height, 0
                yield panel.to_json(number, x, y)
                number, x, height = number + 1, x + panel.width, max(height, panel.height)
            y += height


def restarts():
    return {"name": "Starts", "enable": True, "iconColor": "blue", "datasource": DATASOURCE,
            "expr": f"changes(lodgekv_start_time_seconds{{{SERVERS}}}[$__interval]) > 0",
            "titleFormat": "{{instance}} started"}


def variables():
    return [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
         "refresh": 1, "hide": 0, "regex": "", "current": {}, "options": []},
        choice("job", "Job", "label_values(lodgekv_build_info, job)"),
        choice("instance", "Server", 'label_values(lodgekv_build_info{job=~"$job"}, instance)'),
    ]


def choice(name, label, query):
    return {"name": name, "label": label, "type": "query", "datasource": DATASOURCE,
            "query": {"query": query, "refId": name}, "definition": query, "refresh": 2, "sort": 1,
            "multi": True, "includeAll": True, "allValue": ".+", "hide": 0, "regex": "",
            "current": {"text": ["All"], "value": ["$__all"], "selected": True}, "options": []}
