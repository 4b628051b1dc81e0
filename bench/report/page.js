
"use strict";
// Shows the modes that are ticked, and the cell that is chosen, in each study by itself.
for (const study of document.querySelectorAll("[data-study]")) {
  const boxes = [...study.querySelectorAll("input[data-mode]")];
  const places = [...study.querySelectorAll("[data-place]")];
  const select = study.querySelector("select");
  const show = () => {
    const off = new Set(boxes.filter((b) => !b.checked).map((b) => b.dataset.mode));
    for (const e of study.querySelectorAll("[data-series], [data-row]")) {
      e.classList.toggle("off", off.has(e.dataset.series ?? e.dataset.row));
    }
    for (const p of places) p.classList.toggle("off", select !== null && p.dataset.place !== select.value);
  };
  study.addEventListener("input", show);
  for (const f of study.querySelectorAll("form")) {
    f.classList.remove("off");
    f.addEventListener("submit", (e) => e.preventDefault());
  }
  show();
}
