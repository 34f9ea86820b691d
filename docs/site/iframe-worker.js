// Search runs in a worker, and browsers load no worker from file://. There, run its script in a
// hidden frame instead. (The theme would fetch such a script from outside; this one is local.)
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.scope = frame.contentWindow;
      const load = (source) => new Promise((resolve, reject) => {
        const script = this.scope.document.createElement("script");
        script.src = source;
        script.onload = resolve;
        script.onerror = reject;
        this.scope.document.body.appendChild(script);
      });
      this.scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.scope.importScripts = (...sources) =>
        sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve());
      this.ready = load(new URL(url, location.href).href);
    }
    postMessage(data) {
      this.ready.then(() => this.scope.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
