// Charts, downloads, sorting and filtering. Everything a person reads is already in the page without this script.
"use strict";
(() => {
  const specs = JSON.parse(document.getElementById("specs").textContent);
  const darkMode = matchMedia("(prefers-color-scheme: dark)");
  const views = new Map();

  // Charts take their colours from the page, so that both colour schemes and paper read well.
  const theme = () => {
    const style = getComputedStyle(document.documentElement);
    const [ink, soft, line] = ["--ink", "--soft", "--line"].map((name) => style.getPropertyValue(name).trim());
    return {
      background: "transparent",
      font: "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
      title: { color: ink, subtitleColor: soft },
      axis: { labelColor: soft, titleColor: ink, gridColor: line, domainColor: line, tickColor: line, labelLimit: 150 },
      legend: { labelColor: soft, titleColor: ink, labelLimit: 220 },
      header: { labelColor: soft, titleColor: ink },
      view: { stroke: line },
      text: { color: ink },
      rule: { color: soft },
    };
  };

  const draw = async (figure) => {
    const target = figure.querySelector(".chart");
    const spec = structuredClone(specs[figure.id]);
    try {
      const { view } = await vegaEmbed(target, spec, { renderer: "svg", actions: false, config: theme(), ast: false });
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

  const quote = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };

  // A chart's data are the largest of its datasets; smaller ones hold rules and labels.
  const csv = (spec) => {
    const tables = Object.values(spec.datasets ?? {}).sort((a, b) => b.length - a.length);
    const rows = tables[0] ?? [];
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
    for (const row of document.querySelectorAll("#models tbody tr")) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    document.getElementById("shown").textContent = `${shown} shown`;
  });

  darkMode.addEventListener("change", drawAll);
  drawAll();
})();
