// The connection: one websocket, opened again when it breaks. Messages come as JSON, or as a binary
// frame: the length of the JSON, the JSON, then the blobs it lists.

export function open(onMessage, onStatus) {
  let socket = null;
  let tries = 0;

  function connect() {
    const url = new URL("/socket", location.href);
    url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const token = new URLSearchParams(location.search).get("token");
    if (token) url.searchParams.set("token", token);
    socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => { tries = 0; onStatus(""); };
    socket.onmessage = (event) => onMessage(...unpack(event.data));
    socket.onclose = (event) => {
      tries += 1;
      const wait = Math.min(10, 0.5 * 2 ** tries);
      const why = event.reason ? `: ${event.reason}` : "";
      onStatus(`Not connected${why}. Trying again in ${Math.round(wait)} s.`);
      setTimeout(connect, wait * 1000);
    };
  }

  connect();
  return (type, fields = {}) => {
    if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ type, ...fields }));
  };
}

function unpack(data) {
  if (typeof data === "string") return [JSON.parse(data), []];
  const length = new DataView(data).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
  let place = 4 + length;
  const blobs = head.blobs.map((size) => {
    place += size;
    return new Uint8Array(data, place - size, size);
  });
  return [head, blobs];
}

export function picture(bytes) {
  return createImageBitmap(new Blob([bytes]));
}
