"""Who may connect, who plays, and what is served."""

import http.client
import socket
import time

import pytest
from serving import Served, blobs, head, say, until
from starlette.datastructures import Headers
from starlette.websockets import WebSocket
from websockets.exceptions import ConnectionClosed, InvalidStatus

from horizon_imagination.errors import UsageError
from horizon_imagination.play import messages as m
from horizon_imagination.play.server import BURST, Client, Gate, listen


def refusal(gate, host, origin=None, token=None):
    headers = {"host": host} | ({} if origin is None else {"origin": origin})
    return gate.refusal(Headers(headers), token, websocket=True)


HERE = Gate(None, ("127.0.0.1",))
OPEN = Gate("secret", ("0.0.0.0", "lab"))


@pytest.mark.parametrize("host", ["127.0.0.1:7788", "localhost:7788", "localhost:9000", "[::1]:80"])
def test_a_page_of_this_host_is_let_in_through_any_tunnel(host):
    assert not refusal(HERE, host, f"http://{host}")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "10.0.0.1", "[::1"])
def test_a_name_that_is_not_ours_is_refused(host):
    assert "host" in refusal(HERE, host, f"http://{host}")


@pytest.mark.parametrize(
    "origin",
    [None, "", "null", "http://evil.example", "http://127.0.0.1:1", "http://localhost:7788"],
)
def test_a_page_of_another_origin_is_refused(origin):
    assert "origin" in refusal(HERE, "127.0.0.1:7788", origin)


def test_others_need_the_token():
    for host in ("192.168.0.7:80", "lab:80", "127.0.0.1:80"):
        assert not refusal(OPEN, host, f"http://{host}", "secret")
        for wrong in (None, "", "secre", "secret2", "Secret", "sécret"):
            assert "token" in refusal(OPEN, host, f"http://{host}", wrong)
    assert "host" in refusal(OPEN, "evil.example", "http://evil.example", "secret")


def nobody():
    return WebSocket({"type": "websocket"}, None, None)


def test_a_client_may_speak_as_often_as_a_person_can():
    client = Client(1, nobody())
    now = client.heard
    assert all(client.may_speak(now) for _ in range(int(BURST)))
    assert not client.may_speak(now)
    assert all(client.may_speak(now + 1.0) for _ in range(50))


def test_what_was_not_read_of_a_kind_is_replaced():
    client = Client(1, nobody())
    for step in range(10_000):
        client.put("frame", bytes(step % 7))
    client.put("state", "{}")
    assert len(client.outbox) == 2 and client.outbox["frame"] == bytes(9_999 % 7)


def test_a_port_that_is_taken_is_said_to_be():
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port}"):
            listen("127.0.0.1", port)
    with pytest.raises(UsageError, match="cannot serve on"):
        listen("203.0.113.1", 0)


def get(served, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    return response.status, response.read(), response.headers


def test_the_page_comes_whole_and_asks_for_nothing_from_elsewhere(served):
    status, page, headers = get(served, "/")
    assert status == 200 and b"Horizon" in page
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert b"http://" not in page and b"https://" not in page
    for file in ("main.js", "play.js", "imagine.js", "browse.js", "style.css", "icon.svg"):
        status, content, headers = get(served, f"/static/{file}")
        assert status == 200 and "content-security-policy" in headers
        text = content.replace(b"http://www.w3.org/2000/svg", b"")
        assert b"http://" not in text and b"https://" not in text.replace(b'"https:"', b"")


PATHS = ["/static/../worker.py", "/static/%2e%2e/worker.py", "/static//etc/passwd", "/films/x"]
PATHS += ["/films/..%2f..%2fetc%2fpasswd", "/films/../../etc/passwd", "/etc/passwd", "/socket"]


@pytest.mark.parametrize("path", PATHS)
def test_no_other_file_is_served(served, path):
    status, content, _ = get(served, path)
    assert status in (403, 404) and b"root:" not in content and b"import" not in content


def test_a_forged_host_gets_no_page(served):
    status, content, _ = get(served, "/", Host="evil.example")
    assert status == 403 and b"Horizon" not in content


@pytest.mark.parametrize("origin", ["", "http://evil.example", "null"])
def test_a_forged_origin_gets_no_websocket(served, origin):
    with pytest.raises(InvalidStatus) as refused, served.connect(origin=origin):
        pass
    assert refused.value.response.status_code == 403


def test_a_player_acts_and_sees(served):
    with served.connect() as player:
        assert head(until(player, "hello"))["actions"] == ["left", "stay", "right"]
        assert head(until(player, "role"))["mine"]
        say(player, "reset")
        say(player, "act", action=2)
        frame = until(player, "frame", lambda f: f["step"] == 1 and f["action"] == 2)
        assert blobs(frame)[0].startswith(b"\x89PNG")
        say(player, "choose", world="both")
        assert len(blobs(until(player, "frame", lambda f: len(f["worlds"]) == 2))) == 2
        say(player, "choose", world="model")
        until(player, "state", lambda s: s["world"] == "model")


def test_one_plays_and_the_others_watch(served):
    with served.connect() as player, served.connect() as viewer:
        assert head(until(player, "role"))["mine"]
        role = head(until(viewer, "role"))
        assert not role["mine"] and not role["free"]
        say(player, "reset")
        say(player, "act", action=0)
        until(viewer, "frame", lambda f: f["step"] == 1)
        say(viewer, "act", action=0)
        assert "watching" in head(until(viewer, "notice"))["text"]
        say(viewer, "control", want=True)
        assert "someone else" in head(until(viewer, "notice"))["text"]
        say(viewer, "curves")  # to look is free
        until(viewer, "curves")
        say(player, "control", want=False)
        until(viewer, "role", lambda r: r["free"])
        say(viewer, "control", want=True)
        until(viewer, "role", lambda r: r["mine"])
        until(player, "role", lambda r: not r["mine"] and not r["free"])


def test_the_controls_pass_on_when_the_player_leaves(served):
    with served.connect() as viewer_to_be:
        with served.connect() as other:
            until(other, "role")
        until(viewer_to_be, "role", lambda r: r["mine"] and r["viewers"] == 1)


def closed(client):
    """Code and reason with which the server closes."""
    with pytest.raises(ConnectionClosed) as end:
        while True:
            client.recv(30)
    return end.value.rcvd.code, end.value.rcvd.reason


@pytest.mark.parametrize(
    ("message", "code", "reason"),
    [
        ("{", 1008, "not JSON"),
        ('{"type": "act", "action": "../x"}', 1008, "whole number"),
        (b"\x00\x01", 1008, "expected text"),
        ("x" * (m.MAX_BYTES + 1), 1009, ""),
    ],
)
def test_a_malformed_message_closes_with_a_reason(served, message, code, reason):
    with served.connect() as client:
        client.send(message)
        got = closed(client)
    assert got[0] == code and reason in got[1]


def test_too_many_messages_close_with_a_reason(served):
    with served.connect() as client:
        try:
            for _ in range(5000):
                say(client, "hold", action=None)
        except ConnectionClosed:
            pass
        code, reason = closed(client)
    assert code == 1008 and "messages a second" in reason


def test_a_server_for_others_asks_for_its_token(tmp_path):
    server = Served("--host", "0.0.0.0", cwd=tmp_path)
    try:
        token = server.url.split("token=")[1]
        assert len(token) >= 32
        assert get(server, "/")[0] == 403 and get(server, "/?token=wrong")[0] == 403
        assert get(server, f"/?token={token}")[0] == 200
        assert get(server, "/static/main.js")[0] == 200
        for query in ("", "?token=", "?token=wrong", f"?token={token[:-1]}"):
            with pytest.raises(InvalidStatus), server.connect(query=query):
                pass
        with server.connect(query=f"?token={token}") as client:
            until(client, "hello")
    finally:
        server.stop()


def test_loopback_is_all_that_is_listened_on(served):
    addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)}
    for address in addresses - {"127.0.0.1", "::1", "127.0.1.1"}:
        with pytest.raises(OSError):
            socket.create_connection((address, served.port), timeout=2)


def test_nobody_watches_nothing_moves(served):
    """A world that runs stands still while nobody is connected."""
    with served.connect() as player:
        say(player, "choose", player="policy", speed=30)
        say(player, "run", on=True)
        until(player, "state", lambda s: s["running"])
    time.sleep(0.5)
    with served.connect() as player:
        first = head(until(player, "frame"))
        assert first["worlds"], "the latest frame waits for whoever comes"
        say(player, "run", on=False)
        until(player, "state", lambda s: not s["running"])
        say(player, "choose", player="person", speed=8)
