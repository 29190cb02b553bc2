// Runs before the page is drawn, so that a dark page never flashes white.
"use strict";
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("assay-theme"); } catch { /* a browser that keeps nothing shows the system's theme */ }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
