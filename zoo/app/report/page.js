// Charts, downloads, sorting and filtering. Everything a person reads is already in the page without this script.
"use strict";
(() => {
  const specs = JSON.parse(document.getElementById("specs").textContent);
  const darkMode = matchMedia("(prefers-color-scheme: dark)");
  const views = new Map();

  const PANEL = 150; // pixels that a panel needs at least, its axis included
  const NARROW = 420; // pixels; legends then stand below their charts, each below the other
  const below = { orient: "bottom", columns: 2, layout: { bottom: { direction: "vertical", anchor: "start" } } };

  // Charts take their colours from the page, so that both colour schemes and paper read well.
  const theme = (room) => {
    const style = getComputedStyle(document.documentElement);
    const [ink, soft, line] = ["--ink", "--soft", "--line"].map((name) => style.getPropertyValue(name).trim());
    return {
      background: "transparent",
      font: "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
      title: { color: ink, subtitleColor: soft, limit: room - 20 },
      axis: { labelColor: soft, titleColor: ink, gridColor: line, domainColor: line, tickColor: line, labelLimit: 150, titleLimit: 240 },
      legend: {
        labelColor: soft, titleColor: ink, labelLimit: 220, symbolBaseFillColor: soft, symbolBaseStrokeColor: soft,
        ...(room < NARROW ? below : {}),
      },
      header: { labelColor: soft, titleColor: ink },
      view: { stroke: line },
      text: { color: ink },
      rule: { color: soft },
    };
  };

  // Of several views Vega cannot fill a place: a drawing shows what axes, legends and gaps take, the views share the rest.
  const embedViews = async (target, spec, embed) => {
    const room = target.clientWidth;
    const parts = spec.vconcat ?? [spec.spec];
    if (spec.facet) spec.columns = Math.max(1, Math.min(spec.columns ?? 1, panels(spec), Math.floor(room / PANEL)));
    const across = spec.facet ? spec.columns : 1;
    for (let pass = 0; ; pass++) {
      const result = await embed(structuredClone(spec));
      const drawn = target.querySelector("svg").getBoundingClientRect().width;
      if (pass === 2 || (drawn <= room && drawn > 0.97 * room)) return result;
      result.view.finalize();
      const width = Math.max(60, parts[0].width + Math.floor((room - drawn) / across) - 1);
      for (const part of parts) {
        if (part.height === part.width) part.height = Math.min(width, Math.max(part.height, 360)); // a square, within reason
        part.width = width;
      }
      if (spec.facet) spec.facet.header = { ...spec.facet.header, labelLimit: width };
    }
  };
  const panels = (spec) => {
    const rows = spec.datasets?.[spec.data?.name] ?? spec.data?.values ?? [];
    return new Set(rows.map((row) => row[spec.facet.field])).size || Infinity;
  };

  const draw = async (figure) => {
    const target = figure.querySelector(".chart");
    const embed = (spec) => vegaEmbed(target, spec, { renderer: "svg", actions: false, config: theme(target.clientWidth), ast: false });
    const spec = structuredClone(specs[figure.id]);
    try {
      const { view } = await (spec.vconcat || spec.facet ? embedViews(target, spec, embed) : embed(spec));
      views.get(figure.id)?.finalize();
      views.set(figure.id, view);
      figure.dataset.drawn = "yes";
    } catch (error) {
      target.textContent = "This chart could not be drawn: " + error.message;
      console.error(figure.id, error);
    }
  };

  const drawAll = async () => {
    for (const figure of document.querySelectorAll("figure[id]")) {
      await draw(figure);
      await new Promise((next) => setTimeout(next)); // keep the page responsive between charts
    }
    document.body.dataset.ready = "yes";
  };

  const save = (name, href) => {
    const link = document.createElement("a");
    link.href = href;
    link.download = name;
    link.click();
    if (href.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(href), 1000);
  };

  // A text that a spreadsheet would run as a formula gets an apostrophe before it; numbers may begin with a minus.
  const quote = (value) => {
    const formula = typeof value === "string" && /^[=+\-@\t\r]/.test(value);
    const text = value === null || value === undefined ? "" : (formula ? "'" : "") + String(value);
    return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };

  const datasets = (spec) => [
    ...Object.values(spec.datasets ?? {}),
    ...(Array.isArray(spec.data?.values) ? [spec.data.values] : []),
    ...[...(spec.layer ?? []), ...(spec.vconcat ?? []), ...(spec.spec ? [spec.spec] : [])].flatMap(datasets),
  ];

  // A chart's data are the largest of its datasets; smaller ones hold rules and labels.
  const csv = (spec) => {
    const rows = datasets(spec).sort((a, b) => b.length - a.length)[0] ?? [];
    const columns = [...new Set(rows.flatMap(Object.keys))];
    return [columns, ...rows.map((row) => columns.map((column) => row[column]))].map((line) => line.map(quote).join(",")).join("\n") + "\n";
  };

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-save]");
    if (!button) return;
    const figure = button.closest("figure");
    const kind = button.dataset.save;
    if (kind === "csv") {
      save(figure.id + ".csv", URL.createObjectURL(new Blob([csv(specs[figure.id])], { type: "text/csv" })));
    } else {
      save(figure.id + "." + kind, await views.get(figure.id).toImageURL(kind, 2));
    }
  });

  // Tables: a header's button sorts by its column, numbers by the number in data-value; empty cells go last.
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    table.tHead.addEventListener("click", (event) => {
      const header = event.target.closest("th");
      if (!header) return;
      const column = header.cellIndex;
      const ascending = header.getAttribute("aria-sort") !== "ascending";
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const compare = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === "" || y === "") return (x === "") - (y === "");
        const order = header.classList.contains("number") ? Number(x) - Number(y) : x.localeCompare(y, undefined, { numeric: true });
        return ascending ? order : -order;
      };
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      body.append(...[...body.rows].sort(compare));
    });
  }

  const input = document.getElementById("filter");
  input?.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of document.querySelectorAll("#model-table tbody tr")) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    document.getElementById("shown").textContent = `${shown} shown`;
  });

  darkMode.addEventListener("change", drawAll);
  let width = innerWidth, waiting; // phones report a resize when their address bar hides
  addEventListener("resize", () => {
    clearTimeout(waiting);
    if (innerWidth !== width) waiting = setTimeout(() => ((width = innerWidth), drawAll()), 200);
  });
  drawAll();
})();
