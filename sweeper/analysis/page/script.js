"use strict";
(() => {
  const form = document.getElementById("filter");
  const boxes = [...form.querySelectorAll("input[type=checkbox]")];
  const search = form.querySelector("input[type=search]");
  const items = [...document.querySelectorAll("main [data-kinds]")];
  const groups = [...document.querySelectorAll("main section, .chapter, .scroll, .chart")];
  const tables = [...document.querySelectorAll("table[data-filtered]")];
  const numbers = (element) => element.dataset.kinds.split(" ");

  // The kinds that every group of boxes allows; null where nothing is chosen.
  const allowed = () => {
    let kept = null;
    for (const name of new Set(boxes.map((box) => box.name))) {
      const chosen = boxes.filter((box) => box.name === name && box.checked);
      if (chosen.length) {
        const kinds = new Set(chosen.flatMap(numbers));
        kept = kept === null ? kinds : new Set([...kept].filter((kind) => kinds.has(kind)));
      }
    }
    return kept;
  };

  // Whether a row has what was searched for: `q=3` is a value of the column q, if there is one, and other words stand
  // anywhere in the row.
  const matching = (words) => {
    const columns = new Map(tables.map((table) => [table, [...table.tHead.rows[0].cells].map((head) => head.textContent.toLowerCase())]));
    return (row) => {
      const heads = columns.get(row.closest("table"));
      return !heads || words.every((word) => {
        const [name, value] = word.split("=");
        if (value === undefined) {
          return row.textContent.toLowerCase().includes(word);
        }
        const column = heads.indexOf(name);
        const text = column < 0 ? value : row.cells[column].textContent.trim().toLowerCase();
        return text === value || (text !== "" && Number(text) === Number(value));
      });
    };
  };

  // Columns that are empty in all rows that are shown are hidden.
  const filled = new WeakMap();
  const cells = (row) => {
    if (!filled.has(row)) {
      filled.set(row, [...row.cells].map((cell) => cell.textContent.trim() !== "" || cell.firstElementChild !== null));
    }
    return filled.get(row);
  };
  const narrow = (table, everything) => {
    const shown = [...table.tBodies[0].rows].filter((row) => !row.hidden);
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const empty = !everything && shown.length > 0 && !shown.some((row) => cells(row)[column]);
      if (head.hidden !== empty) {
        for (const row of table.rows) {
          row.cells[column].hidden = empty;
        }
      }
    });
  };

  const apply = () => {
    const kept = allowed();
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const everything = kept === null && !words.length;
    const matches = matching(words);
    for (const item of items) {
      const out = kept !== null && !numbers(item).some((kind) => kept.has(kind));
      // An element of a drawing has the attribute only, not the property.
      item.toggleAttribute("hidden", out || (words.length > 0 && item.tagName === "TR" && !matches(item)));
    }
    for (const group of groups) {
      const mine = [...group.querySelectorAll("[data-kinds]")];
      const out = !everything && mine.length > 0 && mine.every((item) => item.hasAttribute("hidden"));
      group.toggleAttribute("hidden", out || (group.hasAttribute("data-kinds") && group.hasAttribute("hidden")));
    }
    for (const table of tables) {
      narrow(table, everything);
    }
    const chapters = groups.filter((group) => group.matches(".chapter:not([hidden])"));
    if (kept !== null && chapters.length === 1) {
      chapters[0].open = true;
    }
    const count = (selector, what) => {
      const all = [...document.querySelectorAll(selector)];
      const seen = all.filter((item) => !item.hidden).length;
      return all.length ? `${seen.toLocaleString("en")} of ${all.length.toLocaleString("en")} ${what}` : "";
    };
    const counts = [count("figure", "figures"), count("#comparison tbody tr", "comparisons"), count("#trial-rows tbody tr", "trials")];
    document.getElementById("shown").textContent = everything ? "" : counts.filter(Boolean).join(", ");
    form.querySelector("button").disabled = everything;
  };

  const remember = () => {
    const chosen = new URLSearchParams(boxes.filter((box) => box.checked).map((box) => [box.name, box.value]));
    if (search.value) {
      chosen.set("words", search.value);
    }
    history.replaceState(null, "", `${location.href.split("#")[0]}#${chosen}`);
  };

  // A fragment without "=" is a place on the page, and leaves the filter as it is.
  const recall = () => {
    if (location.hash.includes("=")) {
      const chosen = new URLSearchParams(location.hash.slice(1));
      search.value = chosen.get("words") ?? "";
      for (const box of boxes) {
        box.checked = chosen.getAll(box.name).includes(box.value);
      }
    }
    apply();
  };

  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => { apply(); remember(); });
  form.addEventListener("reset", () => setTimeout(() => { apply(); remember(); }));
  addEventListener("hashchange", recall);
  recall();

  for (const image of document.querySelectorAll("figure img")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "zoom";
    button.title = "Enlarge";
    image.replaceWith(button);
    button.append(image);
    button.addEventListener("click", () => {
      const large = button.closest("figure").classList.toggle("enlarged");
      button.setAttribute("aria-pressed", String(large));
    });
  }

  const value = (row, column) => {
    const cell = row.cells[column];
    const text = cell.textContent.trim();
    if (cell.dataset.sort !== undefined) {
      return Number(cell.dataset.sort);
    }
    return cell.className === "n" && /^[\d.]/.test(text) ? parseFloat(text.replaceAll(",", "")) : text;
  };
  // Numbers before texts, and what is empty always last.
  const compared = (a, b, direction) => {
    if (a === "" || b === "") {
      return (a === "") - (b === "");
    }
    if (typeof a !== typeof b) {
      return typeof a === "number" ? -1 : 1;
    }
    return direction * (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
  };
  const sort = (head, direction) => {
    for (const other of head.parentNode.cells) {
      other.removeAttribute("aria-sort");
    }
    head.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
    const rows = head.closest("table").tBodies[0];
    const sorted = [...rows.rows].map((row) => [value(row, head.cellIndex), row]);
    sorted.sort((a, b) => compared(a[0], b[0], direction));
    rows.append(...sorted.map(([, row]) => row));
  };
  for (const head of document.querySelectorAll("th")) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sort(head, head.getAttribute("aria-sort") === "ascending" ? -1 : 1));
  }

  // Training curves: bands over training seeds or each trial, and what is under the pointer.
  const curves = document.getElementById("curves");
  const modes = new Map();
  const leaving = [];
  const setMode = (each) => {
    leaving.forEach((leave) => leave());
    curves?.classList.toggle("each", each);
    for (const [button, mine] of modes) {
      button.setAttribute("aria-pressed", String(mine === each));
    }
  };
  if (curves) {
    const bar = document.createElement("div");
    bar.className = "modes";
    for (const [text, each] of [["Bands over training seeds", false], ["Each trial", true]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = text;
      button.addEventListener("click", () => setMode(each));
      modes.set(button, each);
      bar.append(button);
    }
    curves.querySelector(".charts").before(bar);
    setMode(false);
  }

  const read = (text) => (text ? text.split(" ").map((word) => (word === "-" ? null : Number(word))) : []);
  const scale = (text) => {
    const [low, high, logarithmic, begin, end] = read(text);
    const f = logarithmic ? Math.log : (x) => x;
    return (x) => begin + ((f(x) - f(low)) / (f(high) - f(low))) * (end - begin);
  };
  const short = (x) => (x === null ? "" : Number(x.toPrecision(4)).toString());

  for (const chart of document.querySelectorAll(".chart")) {
    const drawing = chart.querySelector("svg");
    const [across, up] = [scale(chart.dataset.across), scale(chart.dataset.up)];
    const mark = document.createElementNS("http://www.w3.org/2000/svg", "circle");
    mark.setAttribute("class", "mark");
    mark.setAttribute("r", "4");
    mark.toggleAttribute("hidden", true);
    drawing.append(mark);
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.setAttribute("role", "status");
    tip.hidden = true;
    chart.append(tip);
    const all = [...drawing.querySelectorAll(".series")].map((group) => ({
      group,
      steps: read(group.dataset.steps),
      mean: { path: group.querySelector(".line"), values: read(group.dataset.means) },
      trials: [...group.querySelectorAll(".trial")].map((path) => ({ path, values: read(path.dataset.values) })),
    }));
    for (const { steps, trials } of all) {
      for (const { path, values } of trials) {
        const points = values.flatMap((value, place) => (value === null ? [] : [`${across(steps[place]).toFixed(1)},${up(value).toFixed(1)}`]));
        path.setAttribute("d", `M${points.join("L")}`);
      }
    }
    // The lines that can be seen.
    const lines = () => all.filter(({ group }) => !group.hasAttribute("hidden")).flatMap((series) =>
      (curves.classList.contains("each") ? series.trials : [series.mean]).map((line) => ({ series, ...line })));
    let at = null;

    const leave = () => {
      at = null;
      tip.hidden = true;
      mark.toggleAttribute("hidden", true);
      drawing.querySelector(".near")?.classList.remove("near");
    };
    leaving.push(leave);
    const tell = (line, place) => {
      const { series, path, values } = line;
      leave();
      at = { line, place };
      path.classList.add("near");
      const [x, y] = [across(series.steps[place]), up(values[place])];
      mark.setAttribute("cx", x);
      mark.setAttribute("cy", y);
      mark.toggleAttribute("hidden", false);
      const title = document.createElement("b");
      title.textContent = series.group.dataset.label;
      const behind = path === series.mean.path ? series.trials.filter((trial) => trial.values[place] !== null) : [line];
      const seeds = behind.map(({ path: { dataset }, values: own }) =>
        `seed ${dataset.seed}: ${short(own[place])} (${dataset.trial.slice(0, 8)}, ${dataset.status})`);
      const rest = seeds.length - 8;
      const text = [`step ${series.steps[place].toLocaleString("en")}: ${short(values[place])}`];
      if (path === series.mean.path && behind.length > 1) {
        text[0] += `, the mean of ${behind.length} seeds`;
      }
      tip.replaceChildren(title, [...text, ...seeds.slice(0, 8), ...(rest > 0 ? [`and ${rest} more`] : [])].join("\n"));
      tip.hidden = false;
      const box = drawing.getBoundingClientRect();
      const ratio = box.width / 480;
      const left = x * ratio + (x > 262 ? -tip.offsetWidth - 12 : 12);
      tip.style.left = `${Math.max(0, Math.min(left, chart.clientWidth - tip.offsetWidth))}px`;
      tip.style.top = `${box.top - chart.getBoundingClientRect().top + y * ratio + 12}px`;
    };
    const nearest = (x, y) => {
      let best = null;
      for (const line of lines()) {
        line.values.forEach((value, place) => {
          if (value !== null) {
            const distance = Math.hypot(across(line.series.steps[place]) - x, up(value) - y);
            if (best === null || distance < best.distance) {
              best = { distance, line, place };
            }
          }
        });
      }
      return best;
    };
    const point = (event) => {
      const box = drawing.getBoundingClientRect();
      const best = nearest(((event.clientX - box.left) * 480) / box.width, ((event.clientY - box.top) * 480) / box.width);
      if (best) {
        tell(best.line, best.place);
      }
    };
    drawing.addEventListener("pointermove", point);
    drawing.addEventListener("pointerdown", point);
    drawing.addEventListener("pointerleave", leave);
    drawing.addEventListener("blur", leave);
    drawing.addEventListener("keydown", (event) => {
      const [sideways, upwards] = [{ ArrowLeft: -1, ArrowRight: 1 }[event.key], { ArrowUp: -1, ArrowDown: 1 }[event.key]];
      if (event.key === "Escape") {
        leave();
      }
      if (sideways === undefined && upwards === undefined) {
        return;
      }
      event.preventDefault();
      const seen = lines();
      let number = at === null ? 0 : Math.max(0, seen.findIndex((line) => line.path === at.line.path));
      number = (number + (upwards ?? 0) + seen.length) % seen.length;
      const line = seen[number];
      const places = line.values.flatMap((value, place) => (value === null ? [] : [place]));
      const before = places.findIndex((place) => place >= (at?.place ?? 0));
      const now = before < 0 ? places.length - 1 : before + (at === null ? 0 : sideways ?? 0);
      tell(line, places[Math.max(0, Math.min(now, places.length - 1))]);
    });
  }

  // A page that is written again and again is loaded again, and is then as its reader left it.
  const anchors = () => [...document.querySelectorAll("main section, figure, .chart")];
  const named = (element) => element.id || element.querySelector("b, h3").textContent;
  const summaries = () => [...document.querySelectorAll("summary")];
  const leftAs = () => {
    const anchor = anchors().filter((element) => element.getBoundingClientRect().top <= 1).at(-1);
    return {
      anchor: anchor && [named(anchor), anchor.getBoundingClientRect().top],
      top: scrollY,
      each: curves?.classList.contains("each") ?? false,
      enlarged: [...document.querySelectorAll("figure.enlarged")].map(named),
      opened: summaries().filter((summary) => summary.parentNode.open).map((summary) => summary.textContent),
      sorted: [...document.querySelectorAll("th[aria-sort]")].map((head) =>
        [head.closest("table").id, head.textContent, head.getAttribute("aria-sort")]),
      scrolled: [...document.querySelectorAll(".scroll")].map((box) =>
        [box.querySelector("table").id, box.scrollLeft, box.scrollTop]),
    };
  };
  const restore = (left) => {
    setMode(left.each);
    for (const figure of document.querySelectorAll("figure")) {
      if (left.enlarged.includes(named(figure))) {
        figure.querySelector(".zoom")?.click();
      }
    }
    for (const summary of summaries()) {
      summary.parentNode.open = left.opened.includes(summary.textContent);
    }
    for (const [id, text, order] of left.sorted) {
      const head = [...(document.getElementById(id)?.tHead.rows[0].cells ?? [])].find((cell) => cell.textContent === text);
      if (head) {
        sort(head, order === "ascending" ? 1 : -1);
      }
    }
    for (const [id, x, y] of left.scrolled) {
      document.getElementById(id)?.closest(".scroll").scrollTo(x, y);
    }
    const anchor = left.anchor && anchors().find((element) => named(element) === left.anchor[0]);
    scrollTo(0, anchor ? scrollY + anchor.getBoundingClientRect().top - left.anchor[1] : left.top);
  };
  if (history.state?.left) {
    restore(history.state.left);
    history.replaceState(null, "", location.href);
    history.scrollRestoration = "auto";
  }
  const every = Number(document.documentElement.dataset.every);
  if (every) {
    let patience = 60;
    const again = () => {
      // Nobody reads a hidden page, and a reader who points at a curve or marks a text is given a minute.
      const busy = !getSelection().isCollapsed || document.querySelector(".tip:not([hidden])");
      if (document.hidden || (busy && patience-- > 0)) {
        setTimeout(again, 1000);
        return;
      }
      history.scrollRestoration = "manual";
      history.replaceState({ left: leftAs() }, "", location.href);
      location.reload();
    };
    setTimeout(again, 1000 * every);
  }
})();
