"use strict";
(() => {
  const form = document.querySelector("form.filters");
  if (!form) return;
  const [find, family, kind, changes, count] = ["find", "family", "kind", "changes", "count"].map(
    (id) => document.getElementById(id),
  );
  const lines = [...document.querySelectorAll("table.matrix tbody")].map((body) => ({
    body,
    text: body.textContent.toLowerCase(),
  }));
  const filter = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { body, text } of lines) {
      const fits =
        words.every((word) => text.includes(word)) &&
        (!family.value || body.dataset.family === family.value) &&
        (!kind.value || body.dataset.kind === kind.value) &&
        (!changes.checked || body.classList.contains("changed"));
      body.hidden = !fits;
      shown += fits;
    }
    count.textContent = `${shown} of ${lines.length} packages`;
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  filter();
})();
