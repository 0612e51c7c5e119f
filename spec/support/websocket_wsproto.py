"""An echoing server at port argv[1], asked by PyPI's wsproto. Prints "done"; a failure where that is not installed."""
import socket
import sys

try:
    from wsproto import ConnectionType, WSConnection
    from wsproto import events as e
except ImportError:
    sys.exit("Python's wsproto is not here: tools/setup test brings it")

sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60)
ws = WSConnection(ConnectionType.CLIENT)
seen = []


def send(event):
    sock.sendall(ws.send(event))


def until(kind):
    while True:
        for event in ws.events():
            seen.append(event)
        while seen:
            event = seen.pop(0)
            if isinstance(event, kind):
                return event
        ws.receive_data(sock.recv(65536) or None)


send(e.Request(host="127.0.0.1:" + sys.argv[1], target="/echo"))
until(e.AcceptConnection)
send(e.TextMessage("one ", message_finished=False))
send(e.Ping(b"between"))
send(e.TextMessage("message"))
assert bytes(until(e.Pong).payload) == b"between"
assert until(e.TextMessage).data == "one message"
send(e.BytesMessage(b"\x00" * 70000))
left = 70000
while left > 0:
    left -= len(until(e.BytesMessage).data)
send(e.CloseConnection(code=1000, reason="done"))
assert until(e.CloseConnection).code == 1000
print("done")
