"use strict";
(() => {
  const form = document.getElementById("filter");
  const boxes = [...form.querySelectorAll("input")];
  const items = [...document.querySelectorAll("main [data-kinds]")];
  const places = [...document.querySelectorAll("[data-filtered]")];
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

  const apply = () => {
    const kept = allowed();
    for (const item of items) {
      item.hidden = kept !== null && !numbers(item).some((kind) => kept.has(kind));
    }
    for (const place of places) {
      const mine = [...place.querySelectorAll("[data-kinds]")];
      const none = (place.closest(".scroll") || place).nextElementSibling;
      none.hidden = !mine.length || mine.some((item) => !item.hidden);
    }
    const count = (selector, what) => {
      const all = [...document.querySelectorAll(selector)];
      const seen = all.filter((item) => !item.hidden).length;
      return all.length ? `${seen.toLocaleString("en")} of ${all.length.toLocaleString("en")} ${what}` : "";
    };
    const counts = [count("figure", "figures"), count("#comparison tbody tr", "comparisons"), count("#trial-rows tbody tr", "trials")];
    document.getElementById("shown").textContent = kept === null ? "" : counts.filter(Boolean).join(", ");
    form.querySelector("button").disabled = kept === null;
  };

  const remember = () => {
    const chosen = new URLSearchParams(boxes.filter((box) => box.checked).map((box) => [box.name, box.value]));
    history.replaceState(null, "", `${location.href.split("#")[0]}#${chosen}`);
  };

  // A fragment without "=" is a place on the page, and leaves the filter as it is.
  const recall = () => {
    if (location.hash.includes("=")) {
      const chosen = new URLSearchParams(location.hash.slice(1));
      for (const box of boxes) {
        box.checked = chosen.getAll(box.name).includes(box.value);
      }
    }
    apply();
  };

  for (const place of places) {
    const none = document.createElement("p");
    none.className = "note";
    none.textContent = "Nothing here matches the filter.";
    (place.closest(".scroll") || place).after(none);
  }
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", () => { apply(); remember(); });
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
    return cell.dataset.sort === undefined ? cell.textContent.trim() : Number(cell.dataset.sort);
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
  for (const head of document.querySelectorAll("th")) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const direction = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      for (const other of head.parentNode.cells) {
        other.removeAttribute("aria-sort");
      }
      head.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
      const rows = head.closest("table").tBodies[0];
      const sorted = [...rows.rows].map((row) => [value(row, head.cellIndex), row]);
      sorted.sort((a, b) => compared(a[0], b[0], direction));
      rows.append(...sorted.map(([, row]) => row));
    });
  }
})();
