"""The peer of parser_differential.t: h11 reads the same requests as engine/t/http1_dump.c and prints the same lines."""
import struct
import sys

import h11


def as_hex(data):
    return bytes(data).hex() or "-"


def keeps_alive(conn):
    """Whether h11 would read another request after it has answered this one."""
    conn.send(h11.Response(status_code=400, headers=[("content-length", "0")]))
    conn.send(h11.EndOfMessage())
    return conn.our_state is not h11.MUST_CLOSE


def line_for(text):
    conn = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    try:
        conn.receive_data(text)
        event = conn.next_event()
    except h11.RemoteProtocolError as error:
        return "refuse %d %s" % (error.error_status_hint, str(error).replace("\n", " "))
    if event is h11.NEED_DATA:
        return "more"
    head_len = len(text) - len(conn.trailing_data[0])
    headers = [(bytes(name), bytes(value)) for name, value in event.headers]
    framing = "none"
    for name, value in headers:
        if name == b"transfer-encoding":
            framing = "chunked"
        elif name == b"content-length" and framing != "chunked":
            framing = value.decode("ascii")
    return "accept %s %s %s %s %d %d %s" % (
        as_hex(event.method),
        as_hex(event.target),
        bytes(event.http_version).decode("ascii"),
        framing,
        keeps_alive(conn),
        head_len,
        ",".join(as_hex(name) + ":" + as_hex(value) for name, value in headers),
    )


def main():
    requests = sys.stdin.buffer
    while True:
        prefix = requests.read(4)
        if len(prefix) < 4:
            break
        print(line_for(requests.read(struct.unpack(">I", prefix)[0])))


main()
