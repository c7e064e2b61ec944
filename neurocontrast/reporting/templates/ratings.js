"use strict";
// Ratings stay in this browser until they are downloaded: a page that is closed and opened again still has them.
const forms = [...document.querySelectorAll("fieldset.rating")];
const place = "neurocontrast ratings " + document.querySelector(".gallery").dataset.key;
const nameOf = form => form.dataset.participant + "\t" + form.dataset.session;
const ratingOf = form => form.querySelector("input:checked")?.value;
const rated = () => forms.filter(ratingOf);

function show() {
  document.querySelector("#n-rated").textContent = `${rated().length} of ${forms.length} scans are rated. `;
}

try {
  const kept = JSON.parse(localStorage.getItem(place) ?? "{}");
  for (const form of forms)
    for (const input of form.querySelectorAll("input"))
      if (nameOf(form) in kept) input.checked = input.value === kept[nameOf(form)];
} catch { /* a browser that keeps nothing */ }

document.addEventListener("change", event => {
  if (!event.target.closest("fieldset.rating")) return;
  show();
  try {
    localStorage.setItem(place, JSON.stringify(Object.fromEntries(rated().map(form => [nameOf(form), ratingOf(form)]))));
  } catch { /* as above */ }
});

document.querySelector("#download").addEventListener("click", () => {
  const lines = ["participant_id\tsession\tqc_rating", ...rated().map(form => `${nameOf(form)}\t${ratingOf(form)}`), ""];
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines.join("\n")], { type: "text/tab-separated-values" }));
  link.download = "ratings.tsv";
  link.click();
});
show();
