"use strict";
// Lights up a step of the story and its row of the drawing together.
for (const element of document.querySelectorAll("[data-step]")) {
  const both = document.querySelectorAll(`[data-step="${element.dataset.step}"]`);
  const light = (on) => () => both.forEach((one) => one.classList.toggle("at", on));
  element.addEventListener("pointerenter", light(true));
  element.addEventListener("pointerleave", light(false));
  element.addEventListener("focusin", light(true));
  element.addEventListener("focusout", light(false));
}
