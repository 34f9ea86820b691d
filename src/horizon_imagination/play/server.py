"""The server: one page, one websocket a browser, many viewers and one player.

Everything from the network is bounded and checked here: who may connect (host, origin, token), how
long and how often messages may be, and what they may say. A client has an outbox that keeps the
newest message of each kind; one that does not read loses frames, and in the end its connection.
"""

import asyncio
import contextlib
import ipaddress
import secrets
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as ASGIMessage
from starlette.websockets import WebSocket, WebSocketDisconnect

from horizon_imagination.errors import UsageError
from horizon_imagination.play import messages as m
from horizon_imagination.play.answers import Answer, notice
from horizon_imagination.play.worker import Settings, Worker

PORT = 7788
STATIC = Path(__file__).parent / "static"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
MAX_CLIENTS = 64
MESSAGES_A_SECOND, BURST = 60.0, 120.0
SLOW = 20.0
"""Seconds a client may take to read a message."""
IDLE_PLAYER = 60.0
"""Seconds after which the controls of a player who does nothing are free."""
KEPT = ("hello", "state", "frame", "strip")
"""Kinds of which a new client gets the newest."""
NEEDS_CONTROL = (m.Act, m.Hold, m.Step, m.Run, m.Reset, m.Choose, m.Record, m.Imagine, m.Load)
POLICY_VIOLATION, TRY_LATER, UNAUTHORIZED = 1008, 1013, 4401
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True)
class Gate:
    """Who may come in."""

    token: str | None = None
    """Asked for wherever more than this machine can connect."""
    hosts: tuple[str, ...] = ()
    """Further names this server may be called by."""

    def refusal(self, headers: Headers, query_token: str | None, *, websocket: bool) -> str:
        """Why a request is turned away; empty if it is not.

        The host must be a name of ours, so that no other site's name can be pointed here; a
        websocket must come from a page of this very host, since browsers let any page open one.
        """
        host = headers.get("host", "")
        if not self._ours(host):
            return "this host name is not served here"
        if websocket:
            origin = urlsplit(headers.get("origin", ""))
            if origin.scheme not in ("http", "https") or origin.netloc.lower() != host.lower():
                return "the page comes from another origin"
        if self.token is not None:
            given = (query_token or "").encode()
            if not secrets.compare_digest(given, self.token.encode()):
                return "the token is missing or wrong"
        return ""

    def _ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in LOOPBACK or name in self.hosts:
            return True
        return self.token is not None and _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@dataclass(eq=False)
class Client:
    """A browser that is connected."""

    number: int
    socket: WebSocket
    outbox: dict[str, str | bytes] = field(default_factory=dict)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    tokens: float = BURST
    heard: float = field(default_factory=time.monotonic)
    active: float = field(default_factory=time.monotonic)

    def put(self, kind: str, payload: str | bytes) -> None:
        """To be sent when the client reads; what it has not read of the same kind is dropped."""
        self.outbox.pop(kind, None)
        self.outbox[kind] = payload
        self.ready.set()

    def may_speak(self, now: float) -> bool:
        """Whether one more message is within the rate, at a time of the monotonic clock."""
        self.tokens = min(BURST, self.tokens + (now - self.heard) * MESSAGES_A_SECOND)
        self.heard = now
        self.tokens -= 1
        return self.tokens >= 0

    async def send_all(self) -> None:
        """Send what is in the outbox, for as long as the client reads."""
        while True:
            await self.ready.wait()
            self.ready.clear()
            while self.outbox:
                payload = self.outbox.pop(next(iter(self.outbox)))
                async with asyncio.timeout(SLOW):
                    if isinstance(payload, str):
                        await self.socket.send_text(payload)
                    else:
                        await self.socket.send_bytes(payload)


class Hub:
    """Everyone who is connected, and who of them plays."""

    def __init__(self, settings: Settings, gate: Gate) -> None:
        self.gate = gate
        self.clients: dict[int, Client] = {}
        self.player: int | None = None
        self.latest: dict[str, str | bytes] = {}
        self.loop: asyncio.AbstractEventLoop | None = None
        self.arrived = 0
        self.worker = Worker(settings, self.post)

    def post(self, answer: Answer, to: int | None) -> None:
        """Called by the worker: hand an answer over to the loop that serves the clients."""
        payload = answer.packed()
        if self.loop is None:  # nobody is served yet
            self._deliver(answer.kind, payload, to)
            return
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(self._deliver, answer.kind, payload, to)

    def _deliver(self, kind: str, payload: str | bytes, to: int | None) -> None:
        if to is None and kind in KEPT:
            self.latest[kind] = payload
            if kind == "hello":  # strips of another agent mean nothing now
                self.latest.pop("strip", None)
        for client in self.clients.values():
            if to is None or client.number == to:
                client.put(kind, payload)

    async def serve(self, websocket: WebSocket) -> None:
        """Talk to one client until it leaves or misbehaves."""
        token = websocket.query_params.get("token")
        refusal = self.gate.refusal(websocket.headers, token, websocket=True)
        if refusal:
            response = PlainTextResponse(refusal, status_code=403)
            await websocket.send_denial_response(response)
            return
        await websocket.accept()
        if len(self.clients) >= MAX_CLIENTS:
            await websocket.close(TRY_LATER, "too many viewers; try again later")
            return
        client = self._enter(websocket)
        sender = asyncio.create_task(client.send_all())
        listener = asyncio.create_task(self._listen(client))
        try:
            await asyncio.wait((sender, listener), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._leave(client)
            ended = await _ended(sender, listener)
        with contextlib.suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
            async with asyncio.timeout(1.0):
                await websocket.close(*_farewell(ended))

    def _enter(self, websocket: WebSocket) -> Client:
        self.arrived += 1
        client = Client(self.arrived, websocket)
        self.clients[client.number] = client
        for kind in KEPT:
            if kind in self.latest:
                client.put(kind, self.latest[kind])
        if self.player is None:
            self.player = client.number
        self.worker.watched = True
        self._tell_roles()
        return client

    def _leave(self, client: Client) -> None:
        self.clients.pop(client.number, None)
        if self.player == client.number:
            self.player = next(iter(self.clients), None)
        self.worker.watched = bool(self.clients)
        self._tell_roles()

    async def _listen(self, client: Client) -> None:
        while True:
            received = await client.socket.receive()
            if received["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(received.get("code", 1005))
            if not client.may_speak(time.monotonic()):
                raise m.Malformed(f"more than {MESSAGES_A_SECOND:g} messages a second")
            text = received.get("text")
            if text is None:
                raise m.Malformed("expected text")
            self._hear(client, m.parse(text))

    def _hear(self, client: Client, message: m.Message) -> None:
        if isinstance(message, m.Control):
            self._hand_over(client, message.want)
        elif isinstance(message, NEEDS_CONTROL) and client.number != self.player:
            self.answer(client, notice("you are watching; take the controls first", bad=True))
        else:
            client.active = time.monotonic()
            if not self.worker.jobs.put(client.number, message):
                self.answer(client, notice("too much to do; try again", bad=True))

    def _hand_over(self, client: Client, want: bool) -> None:
        """Give the controls to who asks, if they are free or their owner is idle."""
        owner = self.clients.get(self.player or -1)
        if not want and owner is client:
            self.player = None
        elif want and (owner is None or time.monotonic() - owner.active > IDLE_PLAYER):
            self.player = client.number
            client.active = time.monotonic()
        elif want and owner is not client:
            text = "someone else is playing; the controls are free when they leave or rest"
            self.answer(client, notice(text, bad=True))
        self._tell_roles()

    def _tell_roles(self) -> None:
        for client in self.clients.values():
            mine, free = client.number == self.player, self.player is None
            said = {"mine": mine, "free": free, "viewers": len(self.clients)}
            self.answer(client, Answer("role", said))

    def answer(self, client: Client, answer: Answer) -> None:
        """Say something to one client."""
        client.put(answer.kind, answer.packed())


async def _ended(*tasks: asyncio.Task[None]) -> BaseException | None:
    """Stop what still runs; why the first one stopped."""
    reason = next((task.exception() for task in tasks if task.done()), None)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return reason


def _farewell(reason: BaseException | None) -> tuple[int, str]:
    """Code and reason of a close."""
    if isinstance(reason, m.Malformed):
        return POLICY_VIOLATION, str(reason)[:120]
    if isinstance(reason, TimeoutError):
        return TRY_LATER, "the client does not read"
    return 1000, ""


class GateMiddleware:
    """Turns away requests that the gate refuses, and adds headers to every answer."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self.app, self.gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; websockets are judged where they are served."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: ASGIMessage) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        request = Request(scope)
        token = request.query_params.get("token")
        if request.url.path.startswith("/static/"):
            token = self.gate.token  # the page's own files are in every copy of the package
        refusal = self.gate.refusal(request.headers, token, websocket=False)
        if refusal:
            response = PlainTextResponse(f"{refusal}\n", status_code=403)
            await response(scope, receive, send_with_headers)
            return
        await self.app(scope, receive, send_with_headers)


def application(settings: Settings, gate: Gate) -> Starlette:
    """The page, its files, the websocket, and the films made since it started."""
    hub = Hub(settings, gate)

    async def page(request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def film(request: Request) -> Response:
        path = hub.worker.films.get(request.path_params["name"])
        if path is None or not path.is_file():
            return PlainTextResponse("there is no such film", status_code=404)
        return FileResponse(path, media_type="video/mp4", filename=path.name)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        hub.loop = asyncio.get_running_loop()
        hub.worker.start()
        yield
        await asyncio.to_thread(hub.worker.stop)

    app = Starlette(
        routes=[
            Route("/", page),
            Route("/films/{name:str}", film),
            WebSocketRoute("/socket", hub.serve),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        lifespan=lifespan,
        middleware=[Middleware(GateMiddleware, gate=gate)],
    )
    app.state.hub = hub
    return app


def listen(host: str, port: int | None) -> socket.socket:
    """A socket to serve on; without a port, the usual one or any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for wanted in (port,) if port is not None else (PORT, 0):
        try:
            return socket.create_server((host, wanted), family=family, backlog=128)
        except OSError as error:
            if port is not None or wanted == 0:
                raise UsageError(
                    f"cannot serve on {host} port {wanted}: {error.strerror}; name another with "
                    "--port, or 0 for any that is free"
                ) from error
    raise AssertionError


def serve(app: Starlette, at: socket.socket) -> None:
    """Serve until the program is interrupted."""
    import uvicorn

    config = uvicorn.Config(
        app,
        log_level="warning",
        ws="websockets-sansio",
        ws_max_size=m.MAX_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=SLOW,
        ws_ping_timeout=SLOW,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=2,
        limit_concurrency=4 * MAX_CLIENTS,
        server_header=False,
        proxy_headers=False,
    )
    uvicorn.Server(config).run(sockets=[at])
