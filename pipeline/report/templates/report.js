"use strict";
(() => {
  const form = document.querySelector("form.filters");
  if (!form) return;
  const [find, family, kind, changes, count] = ["find", "family", "kind", "changes", "count"].map(
    (id) => document.getElementById(id),
  );
  const lines = [...document.querySelectorAll("table.matrix tbody")].map((body) => {
    const more = document.querySelector(`article[data-line="${body.dataset.line}"]`);
    const text = (body.textContent + (more ? more.textContent : "")).toLowerCase();
    return { body, more, text };
  });
  const filter = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { body, more, text } of lines) {
      const fits =
        words.every((word) => text.includes(word)) &&
        (!family.value || body.dataset.family === family.value) &&
        (!kind.value || body.dataset.kind === kind.value) &&
        (!changes.checked || body.classList.contains("changed"));
      body.hidden = !fits;
      if (more) more.hidden = !fits;
      shown += fits;
    }
    count.textContent = `${shown} of ${lines.length} packages`;
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  filter();
})();
