// A key gives a verdict: the button that carries it is pressed.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input:not([type=hidden]), textarea")) return;
  const button = document.querySelector(`button[data-key="${CSS.escape(event.key)}"]`);
  if (button) {
    event.preventDefault();
    event.stopImmediatePropagation();
    button.click();
  }
}, true);
