"""An echoing server at port argv[1], asked by PyPI's websockets. Prints "done"; a failure where that is not installed."""
import asyncio
import sys

try:
    import websockets
except ImportError:
    sys.exit("Python's websockets is not here: tools/setup test brings it")


async def talk(uri):
    async with websockets.connect(uri, max_size=None) as ws:
        for message in ["hello", "", "\u03ba\U0001f600" * 1000, b"\x00\xff", b"", b"x" * 1000000]:
            await ws.send(message)
            assert await ws.recv() == message
        await ws.send(["in ", "three ", "parts"])
        assert await ws.recv() == "in three parts"
        await asyncio.wait_for(await ws.ping(b"there?"), 60)
        await ws.send("leave")
        try:
            await ws.recv()
            raise AssertionError("it goes on")
        except websockets.ConnectionClosed as closed:
            assert (closed.rcvd.code, closed.rcvd.reason) == (4000, "left"), closed
    async with websockets.connect(uri) as ws:
        await ws.close(3001, "enough")
        assert ws.close_code == 3001
    try:
        async with websockets.connect(uri, origin="http://elsewhere"):
            raise AssertionError("a page of somebody else's was let in")
    except websockets.InvalidStatusCode as refused:
        assert refused.status_code == 403


asyncio.run(talk("ws://127.0.0.1:%s/echo" % sys.argv[1]))
print("done")
