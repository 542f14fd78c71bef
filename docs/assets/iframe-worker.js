// The search of the documentation runs in a worker. Browsers refuse workers in pages that are read
// from disk, so there its script runs in a hidden frame with the same messages.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      inside.postMessage = data => {
        const message = new MessageEvent("message", { data })
        this.dispatchEvent(message)
        this.onmessage?.(message)
      }
      inside.importScripts = (...urls) =>
        urls.reduce((before, each) => before.then(() => load(inside, each)), Promise.resolve())
      this.loaded = load(inside, url)
      this.send = data => inside.dispatchEvent(new inside.MessageEvent("message", { data }))
    }
    postMessage(data) {
      this.loaded.then(() => this.send(structuredClone(data)))
    }
    terminate() {
      this.frame.remove()
    }
  }
}

function load(inside, url) {
  return new Promise((resolve, reject) => {
    const script = inside.document.createElement("script")
    script.src = new URL(url, location.href)
    script.onload = resolve
    script.onerror = reject
    inside.document.body.append(script)
  })
}
