"""What load generators say, in their own words as they were printed here, and in those of others."""

import pytest

from marelab import loads, service
from marelab.errors import LabError

WRK = """Running 1s test @ http://127.0.0.1:7801/
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   449.88us  684.11us   8.35ms   91.05%
  Latency Distribution
     50%  219.00us
     75%  448.00us
     99%    3.73ms
  31757 requests in 1.02s, 4.63MB read
Requests/sec:  31148.79
"""
AB = """Complete requests:      2000
Failed requests:        0
Requests per second:    5619.57 [#/sec] (mean)
  50%      2
  99%      8
 100%     23 (longest request)
"""
REDIS = """  throughput summary: 40000.00 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        0.869     0.264     0.839     1.335     2.023     2.591
====== GET ======
  throughput summary: 10000.00 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        0.762     0.168     0.743     1.167     1.679     2.319
"""
OHA = """  Requests/sec: 5000.5
  50.00% in 0.0010 secs
  99.00% in 0.0040 secs
  99.90% in 0.0100 secs
  [200] 5000 responses
"""
MEMTIER = """Type         Ops/sec     Hits/sec   Misses/sec    Avg. Latency     p50 Latency     p99 Latency   p99.9 Latency       KB/sec
Sets         1000.00          ---          ---         0.50000         0.40000         1.50000         2.50000        70.00
Totals      11000.00     10000.00         0.00         0.50000         0.40000         1.60000         2.60000       470.00
"""
PGBENCH = """pgbench (15.18 (Debian 15.18-0+deb12u1))
transaction type: <builtin: select only>
scaling factor: 1
query mode: simple
number of clients: 8
number of threads: 1
maximum number of tries: 1
duration: 2 s
number of transactions actually processed: 13653
number of failed transactions: 0 (0.000%)
latency average = 1.118 ms
initial connection time = 111.541 ms
tps = 7157.629851 (without initial connection time)
"""
SLAP = """Benchmark
	Average number of seconds to run all queries: 0.625 seconds
	Minimum number of seconds to run all queries: 0.625 seconds
	Maximum number of seconds to run all queries: 0.625 seconds
	Number of clients running queries: 8
	Average number of queries per client: 50

"""


@pytest.mark.parametrize("text,rps,latency", [
    (WRK, 31148.79, {"p50": 0.219, "p99": 3.73}), (AB, 5619.57, {"p50": 2, "p99": 8}), (REDIS, 16000, {"p50": 0.839, "p99": 2.023}),
    ("SET: 35714.29 requests per second, p50=0.767 msec\n", 35714.29, {"p50": 0.767}), (OHA, 5000.5, {"p50": 1, "p99": 4, "p999": 10}),
    (MEMTIER, 11000, {"p50": 0.4, "p99": 1.6, "p999": 2.6}), (PGBENCH, 7157.629851, {}), (SLAP, 640, {})],
    ids=["wrk", "ab", "redis", "redis -q", "oha", "memtier", "pgbench", "mysqlslap"])
def test_rates_and_latencies_are_read(text, rps, latency):
    said = loads.read(text)
    assert said.rps == pytest.approx(rps) and said.latency == pytest.approx(latency) and said.failed is None
    assert said.requests == {WRK: 31757, AB: 2000, PGBENCH: 13653}.get(text)


@pytest.mark.parametrize("text,failed", [(WRK.replace("Requests/sec", "  Non-2xx or 3xx responses: 17\nRequests/sec"), "17"),
                                         (WRK.replace("Requests/sec", "  Socket errors: connect 0, read 3, write 0, timeout 0\nRequests/sec"), "read 3"),
                                         (AB.replace("Failed requests:        0", "Failed requests:        12"), "12"),
                                         (OHA + "  [503] 9 responses\n", "9 responses 503"), (PGBENCH.replace("transactions: 0", "transactions: 4"), "4")])
def test_requests_that_failed_are_seen(text, failed):
    assert failed in loads.read(text).failed


def test_a_load_that_got_no_answer_is_no_load_with_unknown_words():
    silent = WRK.replace("31148.79", "0.00")
    assert loads.read(silent) is None and loads.served_nothing(silent) and not loads.served_nothing("what is this?") and not loads.served_nothing(WRK)
    assert "no request was answered" in service.judge(silent, None) and "is understood" in service.judge("what is this?", None)


def test_other_words_are_read_by_regular_expressions():
    found = loads.patterns([r"rps=handled ([\d,.]+) a second", r"p99=worst of 100: ([\d.]+)"])
    said = loads.read("handled 1,234.5 a second\nworst of 100: 7", found)
    assert said.rps == 1234.5 and said.latency == {"p99": 7}
    assert loads.read("handled nothing", found) is None and loads.read("what is this?") is None


@pytest.mark.parametrize("words,message", [(["rate=(x)"], "write KEY=REGEX"), (["rps=("], "--read rps=("), (["rps=x"], "parentheses"), (["p99=(x)"], "rps is needed")])
def test_mistakes_in_them_are_said(words, message):
    with pytest.raises(LabError) as e:
        loads.patterns(words)
    assert message in str(e.value)
