"use strict";
// A row stays while it holds every word that is typed above its table.
for (const input of document.querySelectorAll("input.filter")) {
  const rows = [...input.closest(".filtered").querySelectorAll("tbody tr")];
  const texts = rows.map(row => row.textContent.toLowerCase());
  const count = input.closest("p").querySelector("span");
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let n = 0;
    rows.forEach((row, place) => {
      row.hidden = !words.every(word => texts[place].includes(word));
      n += !row.hidden;
    });
    count.textContent = `${n} of ${rows.length} rows`;
  };
  input.addEventListener("input", show);
  show();
}
