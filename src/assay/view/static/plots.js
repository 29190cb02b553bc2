// Plots of the task page, from the data block the server wrote.
"use strict";
(() => {
  const block = document.getElementById("plot-data");
  if (!block || !globalThis.Plotly) return;
  const data = JSON.parse(block.textContent);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const layout = (extra) => ({
    margin: { l: 48, r: 12, t: 8, b: 40 }, height: 260, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12, color: colour("--muted") }, showlegend: false, bargap: 0.08, dragmode: false,
    hoverlabel: { bgcolor: colour("--surface"), bordercolor: colour("--line"), font: { color: colour("--ink") } }, ...extra,
  });
  const axis = (title, extra) => ({ title: { text: title, standoff: 8 }, gridcolor: colour("--line"), zeroline: false, fixedrange: true, automargin: true, ...extra });
  const settings = { displayModeBar: false, responsive: true };
  const errors = (points, value) => ({
    type: "data", symmetric: false, thickness: 1.5, width: 4, color: colour("--accent"),
    array: points.map((p) => p.high - p[value]), arrayminus: points.map((p) => p[value] - p.low),
  });

  const plots = {
    distribution: (d) => d.kind === "binary"
      ? [[{ type: "bar", orientation: "h", y: ["right", "wrong"], x: [d.right, d.wrong], marker: { color: [colour("--good"), colour("--bad")] },
          text: [d.right, d.wrong].map((n) => `${n.toLocaleString("en")} · ${(100 * n / d.n).toFixed(1)} %`), textposition: "auto", insidetextfont: { color: colour("--surface") }, outsidetextfont: { color: colour("--ink") }, hoverinfo: "skip", cliponaxis: false }],
        layout({ xaxis: axis("docs", { rangemode: "tozero" }), yaxis: axis("", { autorange: "reversed" }), height: 190 })]
      : [[{ type: "bar", x: d.counts.map((_, i) => (d.edges[i] + d.edges[i + 1]) / 2), y: d.counts, width: d.edges[1] - d.edges[0],
          marker: { color: colour("--accent") }, customdata: d.counts.map((_, i) => [d.edges[i], d.edges[i + 1]]),
          hovertemplate: "%{customdata[0]:.3f} to %{customdata[1]:.3f}: %{y:,} docs<extra></extra>" }],
        layout({ xaxis: axis(data.metric), yaxis: axis("docs"), shapes: [{ type: "line", x0: d.mean, x1: d.mean, yref: "paper", y0: 0, y1: 1, line: { color: colour("--ink"), width: 1.5, dash: "dot" } }] })],
    calibration: (d) => [[
      { x: [0, 1], y: [0, 1], mode: "lines", line: { color: colour("--muted"), dash: "dot", width: 1 }, hoverinfo: "skip" },
      { x: d.points.map((p) => p.confidence), y: d.points.map((p) => p.accuracy), mode: "markers+lines", error_y: errors(d.points, "accuracy"),
        marker: { color: colour("--accent"), size: d.points.map((p) => 6 + 12 * Math.sqrt(p.n / d.n)) }, line: { color: colour("--accent"), width: 1 },
        customdata: d.points.map((p) => p.n), hovertemplate: "share %{x:.2f}, right %{y:.2f}, %{customdata:,} docs<extra></extra>" }],
      layout({ xaxis: axis("share of the most likely choice", { range: [0, 1.02] }), yaxis: axis("right", { range: [-0.02, 1.04] }) })],
    lengths: (d) => [[
      { x: d.points.map((p) => (p.from + p.to) / 2), y: d.points.map((p) => p.mean), mode: "markers+lines", error_y: errors(d.points, "mean"),
        marker: { color: colour("--accent"), size: 8 }, line: { color: colour("--accent"), width: 1.5 },
        customdata: d.points.map((p) => [p.from, p.to, p.n]), hovertemplate: "%{customdata[0]:,} to %{customdata[1]:,} characters: %{y:.3f}, %{customdata[2]:,} docs<extra></extra>" }],
      layout({ xaxis: axis("characters of the prompt"), yaxis: axis(data.metric, { rangemode: "tozero" }) })],
  };

  const draw = () => document.querySelectorAll("[data-plot]").forEach((place) => {
    const name = place.dataset.plot;
    if (!data[name]) return;
    const [traces, shape] = plots[name](data[name]);
    globalThis.Plotly.react(place, traces, shape, settings);
  });
  draw();
  document.addEventListener("themechange", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
