/* Browsers start no worker from a file. Where a page is opened from a folder, the search runs in a hidden frame instead.
   A frame has what the search script uses of a worker: messages in both directions, and scripts that it imports. */
(function () {
  if (window.location.protocol !== "file:") return;

  function FrameWorker(url) {
    var worker = document.createElement("div"); // an element, for its event listeners; it never joins the page
    var waiting = [], frame = document.createElement("iframe");
    frame.hidden = true;

    worker.postMessage = function (data) {
      if (waiting) waiting.push(data);
      else frame.contentWindow.dispatchEvent(new frame.contentWindow.MessageEvent("message", { data: data }));
    };
    worker.terminate = function () { frame.remove(); };

    function start() {
      document.body.appendChild(frame);
      var inner = frame.contentWindow, page = inner.document;
      inner.postMessage = function (data) { worker.dispatchEvent(new MessageEvent("message", { data: data })); };
      inner.importScripts = function () {
        return Array.from(arguments).reduce(function (before, each) {
          return before.then(function () { return load(page, each); });
        }, Promise.resolve());
      };
      load(page, new URL(url, window.location.href).href).then(function () {
        var held = waiting;
        waiting = null;
        held.forEach(worker.postMessage);
      });
    }

    if (document.body) start();
    else document.addEventListener("DOMContentLoaded", start);
    return worker;
  }

  function load(page, url) {
    return new Promise(function (resolve, reject) {
      var script = page.createElement("script");
      script.src = url;
      script.onload = resolve;
      script.onerror = reject;
      page.body.appendChild(script);
    });
  }

  window.Worker = FrameWorker;
})();
