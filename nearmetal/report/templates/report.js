"use strict";
/* Draws each chart when it comes into view, in the colours of the theme in use, and again when the theme changes. */
(function () {
  var specs = JSON.parse(document.getElementById("chart-data").textContent);
  var config = { displayModeBar: false, responsive: true, showTips: false };
  var drawn = new Set();

  function paint(value, css) {
    if (typeof value === "string") {
      var match = /^var\((--[a-z0-9-]+)\)$/.exec(value);
      if (match) return css.getPropertyValue(match[1]).trim();
      return value === "inherit" ? css.fontFamily : value;
    }
    if (Array.isArray(value)) return value.map(function (item) { return paint(item, css); });
    if (value && typeof value === "object") {
      var out = {};
      Object.keys(value).forEach(function (key) { out[key] = paint(value[key], css); });
      return out;
    }
    return value;
  }

  function draw(place) {
    var spec = specs[place.dataset.chart];
    var css = getComputedStyle(document.body);
    drawn.add(place);
    return Plotly.react(place, paint(spec.data, css), paint(spec.layout, css), config);
  }

  var places = Array.prototype.slice.call(document.querySelectorAll("[data-chart]"));
  var seen = new IntersectionObserver(function (entries) {
    entries.forEach(function (entry) {
      if (entry.isIntersecting && !drawn.has(entry.target)) draw(entry.target);
    });
  }, { rootMargin: "400px" });
  places.forEach(function (place) { seen.observe(place); });

  function redraw() { drawn.forEach(function (place) { draw(place); }); }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  /* A link to a closed section opens it. */
  function open() {
    var target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (var at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (target) target.scrollIntoView();
  }
  addEventListener("hashchange", open);
  open();

  document.querySelectorAll("[data-toggle]").forEach(function (button) {
    button.hidden = false;
    button.addEventListener("click", function () {
      var all = document.querySelectorAll(button.dataset.toggle);
      var closed = Array.prototype.some.call(all, function (item) { return !item.open; });
      all.forEach(function (item) { item.open = closed; });
      button.textContent = closed ? button.dataset.close : button.dataset.open;
    });
  });

  /* On paper everything is open, drawn and light. */
  var before = null;
  addEventListener("beforeprint", function () {
    before = Array.prototype.filter.call(document.querySelectorAll("details"), function (item) { return !item.open; });
    before.forEach(function (item) { item.open = true; });
    document.documentElement.classList.add("paper");
    places.forEach(draw);
  });
  addEventListener("afterprint", function () {
    document.documentElement.classList.remove("paper");
    (before || []).forEach(function (item) { item.open = false; });
    redraw();
  });
})();
